"""Text as a column of a store, for language models: separate lines, or running text that includes end marks."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from calque.data.fingerprint import text_settings
from calque.data.numericalise import Numericalised, Texts
from calque.data.store import ColumnKind, pack, smallest_unsigned
from calque.text import EOS, TextConfig, Tokenizer, load_tokenizer, save_columns, train_tokenizer

PART = 4096  # characters of a long line that vocabularies are learnt from together


class TextPreparation(NamedTuple):
    """How text is prepared for language models: columns read, vocabulary learnt, columns stored."""

    text: TextConfig
    maximum_length: int = 256
    running: bool = False
    """Whether the lines form a running text; then each is stored with its end mark, and no line is too long."""

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

    def __call__(self, rows: Sequence[Texts], *, training: bool) -> Numericalised:
        usable: list[int] = []
        lines: list[list[int]] = []
        empty = long = 0
        for index, ids in enumerate(self.tokenizer.encode_many([text for (text,) in rows])):
            if not ids:
                empty += 1
            elif len(ids) > self.maximum_length and not self.running:
                long += 1
            else:
                usable.append(index)
                lines.append([*ids, EOS] if self.running else ids)
        return Numericalised({"text": pack(lines)}, usable, empty, long)

    def unknown(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        return {"text characters": self.tokenizer.unknown_characters("".join(text for (text,) in rows))}


def _parts(line: str) -> Iterator[str]:
    """A long line of running text cut into parts, at spaces if it has any, as subwords are learnt from short lines."""
    start = 0
    while len(line) - start > PART:
        space = line.rfind(" ", start, start + PART)
        stop = space if space > start else start + PART
        yield line[start:stop]
        start = stop + (stop == space)
    yield line[start:]
