"""Manifests of images: one image and its captions per line, as JSON objects or as columns separated by tabs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from calque.config import Config
from calque.data.images import check_image
from calque.data.tables import Weight
from calque.errors import DataError
from calque.parsing import parse_json

SEPARATOR = "\t"  # between the captions of an image in the column `caption`


class ImagesConfig(Config):
    """A manifest of images with their captions, one image per line: TSV if the file's name ends in .tsv, else JSON."""

    kind: Literal["images"] = "images"
    path: Path
    """The manifest, plain or compressed. Paths of images in it are relative to its folder."""
    weight: Weight = 1.0
    """How often an epoch reads each image; with 0.5, every image is read once in two epochs."""

    @property
    def is_table(self) -> bool:
        return ".tsv" in self.path.suffixes


class Box(NamedTuple):
    """A rectangle around an object in an image, and the words of the caption that name the object."""

    left: float
    top: float
    right: float
    bottom: float
    span: tuple[int, int]
    """Start and end (exclusive), in characters, of these words in the first caption."""


class Entry(NamedTuple):
    """A line of a manifest."""

    image: Path
    captions: tuple[str, ...]
    boxes: tuple[Box, ...] = ()


class ManifestRows(NamedTuple):
    """The texts of every line by column (image, captions), and the problems of malformed lines and unusable images."""

    columns: list[list[str]]
    malformed: dict[int, str]
    invalid: dict[int, str]


class _BoxValues(Config):
    """A bounding box of an object, and the part of the caption that names the object, as written in a manifest."""

    box: tuple[float, float, float, float]
    """Left, top, right and bottom in pixels of the upright image."""
    span: tuple[int, int] = Field(
        description="Start and end (exclusive), in characters, of the words that name the object."
    )


def read_entry(line: str, *, corpus: ImagesConfig) -> Entry:
    """The image, captions and boxes of a line. Raises a ValueError that says what is wrong with a malformed line."""
    return _table_entry(line, corpus) if corpus.is_table else _object_entry(line, corpus)


def manifest_rows(texts: Sequence[str], *, corpus: ImagesConfig, first: int) -> ManifestRows:
    """The images and captions of consecutive lines, the first of which has the number `first`.

    Every image is decoded once, so that all unusable ones are reported together.
    """
    rows = ManifestRows([[], []], {}, {})
    for index, text in enumerate(texts):
        image, captions = "", ""
        if text.strip():
            place = f"{corpus.path}: line {first + index}"
            try:
                entry = read_entry(text, corpus=corpus)
                image, captions = str(entry.image), SEPARATOR.join(entry.captions)
                check_image(entry.image)
            except ValueError as error:
                rows.malformed[index] = f"{place}: {error}"
            except DataError as error:
                rows.invalid[index] = f"{place}: {error}"
        rows.columns[0].append(image)
        rows.columns[1].append(captions)
    return rows


def _table_entry(line: str, corpus: ImagesConfig) -> Entry:
    image, *captions = line.split("\t")
    if not captions:
        raise ValueError("found no tab; expected the path of an image, a tab and its caption")
    return _entry(image, captions, (), corpus)


def _object_entry(line: str, corpus: ImagesConfig) -> Entry:
    try:
        values = parse_json(line)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"the line is not JSON: {error.msg} at character {error.pos + 1}; if the manifest is a table, its name "
            "must end in .tsv"
        ) from None
    if not isinstance(values, dict):
        raise ValueError(f"expected a JSON object, found {type(values).__name__}")
    if unknown := sorted(values.keys() - {"image", "caption", "captions", "boxes"}):
        raise ValueError(f"unknown key {unknown[0]!r}; expected image, caption or captions, and boxes")
    captions = values.get("captions", values.get("caption", []))
    captions = [captions] if isinstance(captions, str) else captions
    image = values.get("image")
    if not isinstance(image, str) or not isinstance(captions, list) or not all(isinstance(c, str) for c in captions):
        raise ValueError('expected {"image": "FILE", "caption": "TEXT"}, or "captions" with a list of texts')
    return _entry(image, captions, values.get("boxes", ()), corpus)


def _entry(image: str, captions: Sequence[str], boxes: Any, corpus: ImagesConfig) -> Entry:
    if not image.strip() or "\0" in image:
        raise ValueError("the path of the image is empty, or contains a NUL character")
    if any("\ud800" <= character <= "\udfff" for character in "".join((image, *captions))):
        raise ValueError("the path or a caption contains a lone surrogate, which is not valid Unicode")
    cleaned = tuple(" ".join(caption.split()) for caption in captions)
    if boxes and captions and cleaned[0] != captions[0]:
        raise ValueError(
            "the caption has superfluous white space, so the spans of its boxes would shift; remove the white space"
        )
    return Entry(
        corpus.path.parent / image.strip(), tuple(filter(None, cleaned)), _boxes(boxes, cleaned[0] if cleaned else "")
    )


def _boxes(values: Any, caption: str) -> tuple[Box, ...]:
    """The bounding boxes of a manifest's line; a ValueError for a box without area or a span outside the caption."""
    if not values:
        return ()
    try:
        checked = [_BoxValues.model_validate(value) for value in values]
    except (ValueError, TypeError):
        raise ValueError('boxes: expected [{"box": [left, top, right, bottom], "span": [start, stop]}, …]') from None
    for (left, top, right, bottom), (start, stop) in ((value.box, value.span) for value in checked):
        if not (left < right and top < bottom):
            raise ValueError(
                f"boxes: [{left:g}, {top:g}, {right:g}, {bottom:g}] has no area; expected left < right and top < bottom"
            )
        if not 0 <= start < stop <= len(caption):
            raise ValueError(f"boxes: the span [{start}, {stop}] is not part of a caption of {len(caption)} characters")
    return tuple(Box(*value.box, value.span) for value in checked)
