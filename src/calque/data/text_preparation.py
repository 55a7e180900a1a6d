"""Text as a column of a store, for language models: separate lines, or running text with EOS after each line."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calque.data.fingerprint import text_settings
from calque.data.numericalise import Numericalised, Texts
from calque.data.store import ColumnKind, Rows, select, smallest_unsigned
from calque.text import EOS, TextConfig, Tokenizer, load_tokenizer, save_columns, train_tokenizer

PART = 4096  # characters of a long line that vocabularies are learnt from together


class TextPreparation(NamedTuple):
    """How text is prepared for language models: the column read, the vocabulary learnt and the column stored."""

    text: TextConfig
    maximum_length: int = 256
    running: bool = False
    """Whether the lines form one running text. If so, each is stored with its end mark, and no line is too long."""

    @property
    def unit(self) -> str:
        return "lines"

    @property
    def reads(self) -> tuple[str, ...]:
        return ("text",)

    @property
    def settings(self) -> Mapping[str, str]:
        return {**text_settings(self.text), "task.reading": "running" if self.running else "lines"}

    @property
    def lines_up(self) -> bool:
        return False

    def lengths(self, rows: Sequence[Texts]) -> dict[str, list[int]]:
        return {"text characters": [len(text) for (text,) in rows]}

    def counts(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        return {}

    def learn(self, texts: Callable[[str], Iterator[str]], *, rows: int, folder: Path) -> None:
        def lines() -> Iterator[str]:
            return chain.from_iterable(map(_parts, texts("text"))) if self.running else texts("text")

        count = sum(1 for _ in lines()) if self.running else rows
        save_columns({"text": train_tokenizer(self.text, lines=lines, count=count)}, folder)

    def columns(self, folder: Path, *, training: bool) -> Mapping[str, ColumnKind]:
        size = len(load_tokenizer(folder, column="text").vocabulary)
        return {"text": ColumnKind(smallest_unsigned(size - 1))}

    def numericaliser(self, folder: Path) -> "TextNumericaliser":
        return TextNumericaliser(load_tokenizer(folder, column="text"), self.maximum_length, self.running)


class TextNumericaliser(NamedTuple):
    """Converts lines of text to ids."""

    tokenizer: Tokenizer
    maximum_length: int
    running: bool

    def __call__(self, columns: Sequence[Sequence[str]], *, training: bool) -> Numericalised:
        lines = Rows(*self.tokenizer.encode_flat(columns[0]))
        is_empty = lines.lengths == 0
        is_long = (lines.lengths > self.maximum_length) & (not self.running)
        is_usable = ~(is_empty | is_long)
        usable = select(lines, is_usable)
        if self.running:
            ends = np.cumsum(usable.lengths, dtype=np.int64)
            usable = Rows(np.insert(usable.values, ends, EOS), usable.lengths + np.uint32(1))
        indices: list[int] = np.flatnonzero(is_usable).tolist()
        return Numericalised({"text": usable}, indices, int(is_empty.sum()), int(is_long.sum()))

    def unknown(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        return {"text characters": self.tokenizer.unknown_characters("".join(text for (text,) in rows))}


def _parts(line: str) -> Iterator[str]:
    """Yields a long line in parts, cut at spaces if possible, because subwords can only be learnt from short lines."""
    start = 0
    while len(line) - start > PART:
        space = line.rfind(" ", start, start + PART)
        stop = space if space > start else start + PART
        yield line[start:stop]
        start = stop + (stop == space)
    yield line[start:]
