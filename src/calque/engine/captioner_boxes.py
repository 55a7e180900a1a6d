"""Compares a captioner's attention at words that name objects with the bounding boxes of these objects."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calque.data.image_manifests import Box, Entry, ImagesConfig, read_entry
from calque.data.images import Picture, read_image
from calque.data.lines import LINE_LIMIT, file_lines, path_lines
from calque.data.problems import refuse_binary
from calque.engine.captioner import Captioner
from calque.errors import DataError
from calque.evaluation.attention_boxes import NamedAttention, SquareBox, named_attention, pieces_in_span
from calque.text import Tokenizer

TOGETHER = 64  # images


def manifest_entries(path: Path) -> list[Entry]:
    """The entries of a manifest, one per non-empty line; raises a DataError that names the first malformed line."""
    corpus, entries = ImagesConfig(path=path), []
    if path.is_file():
        refuse_binary(file_lines(path, limit=LINE_LIMIT), path=path, rows="image")
    for line in path_lines(path, limit=LINE_LIMIT, invalid="fail"):
        if not line.text.strip():
            continue
        try:
            entries.append(read_entry(line.text, corpus=corpus))
        except ValueError as error:
            raise DataError(f"{path}: line {line.number}: {error}") from None
    if not entries:
        raise DataError(f"{path}: the manifest lists no images; expected one per line")
    return entries


def box_attention(captioner: Captioner, entries: Sequence[Entry]) -> Iterator[NamedAttention]:
    """For every bounding box, the attention at those words of the reference caption that name the object in the box.

    The decoder is forced to read the reference, so that all models are measured at the same words.
    """
    boxed = [entry for entry in entries if entry.boxes and entry.captions]
    for start in range(0, len(boxed), TOGETHER):
        part = boxed[start : start + TOGETHER]
        pictures = [read_image(entry.image, size=captioner.task.size) for entry in part]
        scores = captioner.score(pictures, [entry.captions[0] for entry in part])
        for entry, picture, score in zip(part, pictures, scores, strict=True):
            if score.attention is None:
                return
            attention = score.attention.double().numpy()
            ends = piece_ends(captioner.tokenizer, captioner.tokenizer.encode(entry.captions[0]))
            for box in entry.boxes:
                if rows := pieces_in_span(ends, box.span):
                    yield named_attention(attention[rows], square_box(box, picture), side=captioner.side)


def square_box(box: Box, picture: Picture) -> SquareBox:
    """Converts a box from pixels of its image to fractions of the square that the model reads."""
    place, size = picture.placement, len(picture.pixels)
    across, down = place.width / picture.width, place.height / picture.height
    return SquareBox(
        (place.left + box.left * across) / size,
        (place.top + box.top * down) / size,
        (place.left + box.right * across) / size,
        (place.top + box.bottom * down) / size,
    )


def piece_ends(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    """For each piece, the number of characters of the text up to and including that piece."""
    ends: list[int] = []
    for count in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:count]).rstrip("\ufffd")  # a character whose bytes are not complete yet
        ends.append(max(len(text), ends[-1] if ends else 0))
    return ends


def attention_grid(row: Sequence[float], *, side: int) -> NDArray[Any]:
    """The attention of one token as a grid [side,side]."""
    return np.asarray(row, dtype=np.float64).reshape(side, side)
