"""Prepares images and their captions for training: the pixels and token ids that a store holds, column by column."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calque.data.fingerprint import text_settings
from calque.data.image_manifests import SEPARATOR
from calque.data.images import read_image
from calque.data.numericalise import Numericalised, Texts
from calque.data.store import ColumnKind, Rows, pack, smallest_unsigned
from calque.text import TextConfig, Tokenizer, load_tokenizer, save_columns, train_tokenizer

IMAGE, CAPTION, CAPTION_LENGTHS = "image", "caption", "caption_lengths"
"""The columns of a store: the rows of pixels of an image, the ids of all its captions, and each caption's length."""
TEXT = "text"  # the name of the tokenizer


class CaptionPreparation(NamedTuple):
    """How manifests of images are prepared: a row per image, with its pixels and the ids of all its captions."""

    text: TextConfig
    size: int
    """Height and width of the stored images, in pixels."""
    maximum_length: int = 256

    @property
    def unit(self) -> str:
        return "images"

    @property
    def reads(self) -> tuple[str, ...]:
        return (IMAGE, CAPTION)

    @property
    def settings(self) -> Mapping[str, str]:
        return {**text_settings(self.text), "task.size": str(self.size)}

    @property
    def running(self) -> bool:
        return False

    @property
    def lines_up(self) -> bool:
        return False

    def lengths(self, rows: Sequence[Texts]) -> dict[str, list[int]]:
        captions = [row[1].split(SEPARATOR) for row in rows]
        return {
            "captions per image": list(map(len, captions)),
            "caption characters": [len(caption) for group in captions for caption in group],
        }

    def counts(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        return {}

    def learn(self, texts: Callable[[str], Iterator[str]], *, rows: int, folder: Path) -> None:
        def captions() -> Iterator[str]:
            return chain.from_iterable(text.split(SEPARATOR) for text in texts(CAPTION))

        count = sum(1 for _ in captions())
        save_columns({TEXT: train_tokenizer(self.text, lines=captions, count=count)}, folder)

    def columns(self, folder: Path, *, training: bool) -> Mapping[str, ColumnKind]:
        vocabulary = len(load_tokenizer(folder, column=TEXT).vocabulary)
        return {
            IMAGE: ColumnKind("<u1", (self.size, 3)),
            CAPTION: ColumnKind(smallest_unsigned(vocabulary - 1)),
            CAPTION_LENGTHS: ColumnKind(smallest_unsigned(self.maximum_length)),
        }

    def numericaliser(self, folder: Path) -> "CaptionNumericaliser":
        return CaptionNumericaliser(load_tokenizer(folder, column=TEXT), self.size, self.maximum_length)


class CaptionNumericaliser(NamedTuple):
    """Converts captions to ids, and reads their images. Captions without tokens or with too many are left out."""

    tokenizer: Tokenizer
    size: int
    maximum_length: int

    def __call__(self, columns: Sequence[Sequence[str]], *, training: bool) -> Numericalised:
        paths, texts = columns
        usable: list[int] = []
        captions: list[list[list[int]]] = []
        empty = long = 0
        for index, text in enumerate(texts):
            encoded = self.tokenizer.encode_many(text.split(SEPARATOR))
            kept = [ids for ids in encoded if 0 < len(ids) <= self.maximum_length]
            if kept:
                usable.append(index)
                captions.append(kept)
            elif any(encoded):
                long += 1
            else:
                empty += 1
        return Numericalised(
            caption_columns([Path(paths[i]) for i in usable], captions, size=self.size), usable, empty, long
        )

    def unknown(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        return {"caption characters": self.tokenizer.unknown_characters("".join(row[1] for row in rows))}


def caption_columns(
    images: Sequence[Path], captions: Sequence[Sequence[Sequence[int]]], *, size: int
) -> dict[str, Rows]:
    """The data of a store's columns image, caption and caption_lengths, with one row per image.

    `images` are read and scaled to squares of `size` pixels. `captions` are the token ids of each image's captions.
    """
    pixels = [read_image(image, size=size).pixels for image in images]
    return {
        IMAGE: Rows(
            np.concatenate(pixels) if pixels else np.zeros((0, size, 3), dtype=np.uint8),
            np.full(len(pixels), size, dtype=np.uint32),
        ),
        CAPTION: pack([list(chain.from_iterable(group)) for group in captions]),
        CAPTION_LENGTHS: pack([list(map(len, group)) for group in captions]),
    }
