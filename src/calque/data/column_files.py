r"""Sentences of words with labels: CoNLL-U, and files of plain columns such as CoNLL-2000's.

A sentence keeps its lines as they are, so that a file with one column replaced differs in that column only: line ends,
spaces, comments and a missing "\n" at the end stay. Columns are counted from 1.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from calque.data.lines import decode, describe, file_lines
from calque.data.problems import refuse
from calque.errors import DataError
from calque.text.cleaning import BYTE_ORDER_MARK, strip_bom

ColumnFormat = Literal["conllu", "columns"]
"""CoNLL-U: ten columns between tabs, and comments. Columns: between tabs where a line has some, else between spaces."""

CONLLU_COLUMNS = 10
LINE_BYTES = 1 << 16  # of the longest line
LATER_LINES = 2048  # read behind a bad line, for further problems
SENTENCE_BYTES = 1 << 24  # of the longest sentence, with a line's overhead in memory

_OVERHEAD = 64
_NUMBER = "[1-9][0-9]{0,8}"
_ID = re.compile(rf"({_NUMBER})(?:-({_NUMBER}))?|(0|{_NUMBER})\.({_NUMBER})")


class ColumnSentence(NamedTuple):
    """A sentence of a column file: its words, the comments before them and the empty line behind them.

    Comments and empty lines behind the last word of a file come as a sentence without words.
    """

    name: str
    """Of the file, for messages."""
    format: ColumnFormat
    first: int
    """The number of its first line, from 1."""
    lines: tuple[bytes, ...]
    """All of its lines with their line ends."""
    words: tuple[int, ...]
    """Which of the lines, from 0, are words."""
    cells: tuple[tuple[str, ...], ...]
    """The values of each word's columns."""

    def column(self, number: int) -> list[str]:
        """The words' values in a column."""
        return [cells[number - 1] for cells in self.cells]


def file_sentences(path: Path, *, format: ColumnFormat, columns: int = 1) -> Iterator[ColumnSentence]:
    """The sentences of a file, plain or gzip, as `read_sentences` gives them."""
    lines = file_lines(path, limit=LINE_BYTES, keep_ends=True)
    return read_sentences(lines, name=str(path), format=format, columns=columns)


def read_sentences(
    lines: Iterable[bytes], *, name: str, format: ColumnFormat, columns: int = 1, first: int = 1
) -> Iterator[ColumnSentence]:
    """Every sentence as soon as it is complete, from lines with their line ends; only one is held in memory.

    The lines are those of a file from number `first` on.
    Every word must have `columns` columns, in CoNLL-U at least ten, and no empty value in them. The problems of the
    first bad line and of the 2,048 lines behind it are raised together as a DataError, each with `name` and line.
    """
    numbered = enumerate(lines, start=first)
    least = max(columns, CONLLU_COLUMNS if format == "conllu" else 1)
    reader = _Reader(name, format=format, columns=least, first=first)
    for number, line in numbered:
        sentence = reader.read(line, number=number)
        if reader.problems:
            for later_number, later_line in islice(numbered, LATER_LINES):
                reader.read(later_line, number=later_number)
            refuse(reader.problems)
        if sentence is not None:
            yield sentence
    sentence = reader.finish()
    refuse(reader.problems)
    if sentence is not None:
        yield sentence


def with_column(sentence: ColumnSentence, *, column: int, values: Sequence[str]) -> bytes:
    """The sentence's bytes with `values`, one per word, in a column; the column behind a line's last is appended.

    In CoNLL-U, multiword tokens and empty nodes have `_` in an appended column.   Law: a column's own values give the
    bytes that were read.
    """
    assert len(values) == len(sentence.words), f"{len(values)} values for {len(sentence.words)} words"
    by_line = dict(zip(sentence.words, values, strict=True))
    output = []
    for place, raw in enumerate(sentence.lines):
        number = sentence.first + place
        line = _split(raw.decode(), number=number, format=sentence.format)
        is_appended = bool(line.parts) and not line.is_comment and len(line.cells) == column - 1
        value = by_line.get(place, "_" if is_appended else None)
        try:
            output.append(raw if value is None else _replaced(line, column=column, value=value, number=number))
        except ValueError as error:
            raise DataError(f"{sentence.name}: line {number}: {error}") from None
    return b"".join(output)


class _Line(NamedTuple):
    """A line between its separators."""

    format: ColumnFormat
    mark: str
    """A byte order mark, or nothing."""
    parts: list[str]
    """Between tabs, all are cells; between spaces, those that are not empty."""
    separator: str
    end: str
    """Spaces, tabs and the line end behind the last cell."""

    @property
    def places(self) -> list[int]:
        """Which parts are cells."""
        return [place for place, part in enumerate(self.parts) if part or self.separator == "\t"]

    @property
    def cells(self) -> list[str]:
        """The values, without spaces around them."""
        if self.separator == " ":
            return [part for part in self.parts if part]
        return [part.strip(" ") for part in self.parts]

    @property
    def is_comment(self) -> bool:
        return self.format == "conllu" and bool(self.parts) and self.parts[0].startswith("#")

    @property
    def text(self) -> str:
        return self.mark + self.separator.join(self.parts) + self.end


def _split(text: str, *, number: int, format: ColumnFormat) -> _Line:
    content, is_marked = strip_bom(text) if number == 1 else (text, False)
    body = content.rstrip(" \t\r\n")
    separator = "\t" if format == "conllu" or "\t" in body else " "
    parts = body.split(separator) if body else []
    return _Line(format, BYTE_ORDER_MARK * is_marked, parts, separator, content[len(body) :])


def _replaced(line: _Line, *, column: int, value: str, number: int) -> bytes:
    """The line with a value in a column; a ValueError says why it could not be read again."""
    parts, places, cells = list(line.parts), line.places, line.cells
    if column > len(places) + 1:
        raise ValueError(f"{len(places)} columns, so that column {column} can be neither replaced nor appended")
    if column > len(places):
        parts.append(value)
    else:
        part, old = parts[places[column - 1]], cells[column - 1]
        start = part.index(old)
        parts[places[column - 1]] = part[:start] + value + part[start + len(old) :]
    changed = line._replace(parts=parts).text
    expected = [*cells[: column - 1], value, *cells[column:]]
    if "\n" in value or _split(changed, number=number, format=line.format).cells != expected:
        between = "tabs" if line.separator == "\t" else "spaces"
        raise ValueError(f"{value!r} cannot be the value of a column between {between}")
    return changed.encode()


class _Reader:
    """Gathers lines to sentences, and what is wrong with them."""

    def __init__(self, name: str, *, format: ColumnFormat, columns: int, first: int) -> None:
        self.name = name
        self.format = format
        self.columns = columns
        self.problems: list[str] = []
        self.is_ended = True
        self._begin(first)

    def _begin(self, first: int) -> None:
        self.first = first
        self.size = 0
        self.lines: list[bytes] = []
        self.words: list[int] = []
        self.cells: list[tuple[str, ...]] = []
        self.has_rows = False
        self.ids = _Ids()

    def read(self, raw: bytes, *, number: int) -> ColumnSentence | None:
        """The sentence that ends with this line, if one does."""
        if not self.is_ended:
            raise ValueError(f"line {number - 1} has no line end, but lines follow: pass lines with their ends")
        is_long = len(raw.removesuffix(b"\n")) > LINE_BYTES
        self.is_ended = raw.endswith(b"\n") or is_long
        if is_long:
            self._report(number, f"longer than {LINE_BYTES:,} bytes")
            self.ids.word += not raw.startswith(b"#")
            return None
        text, byte = decode(raw)
        if byte:
            self.problems.append(f"{self.name}: {describe(number, byte, raw)}")
        self._keep(raw)
        line = _split(text, number=number, format=self.format)
        if not line.parts:
            return self._complete() if self.has_rows else None
        if not line.is_comment:
            self._read_row(line, number=number)
        return None

    def finish(self) -> ColumnSentence | None:
        """The sentence that the end of the file ends, if lines are left."""
        return self._complete() if self.lines else None

    def _keep(self, raw: bytes) -> None:
        self.lines.append(raw)
        self.size += len(raw) + _OVERHEAD
        if self.size > SENTENCE_BYTES:
            self._report(self.first, f"a sentence of {len(self.lines):,} lines and more; an empty line must end each")
            refuse(self.problems)

    def _complete(self) -> ColumnSentence:
        sentence = ColumnSentence(
            self.name, self.format, self.first, tuple(self.lines), tuple(self.words), tuple(self.cells)
        )
        for number, problem in self.ids.unfinished():
            self._report(number, problem)
        self._begin(self.first + len(self.lines))
        return sentence

    def _read_row(self, line: _Line, *, number: int) -> None:
        """Takes in a line of cells: a word, or a multiword token or an empty node of CoNLL-U."""
        cells = line.cells
        is_word, problem = self.ids.read(cells[0], number=number) if self.format == "conllu" else (True, None)
        if len(cells) < self.columns:
            between = "tabs" if line.separator == "\t" else "spaces"
            problem = f"{len(cells)} columns between {between}, expected at least {self.columns}"
        elif "" in cells[: self.columns]:
            problem = f"column {cells.index('') + 1} is empty"
        if problem:
            self._report(number, problem)
        self.has_rows = True
        if is_word:
            self.words.append(len(self.lines) - 1)
            self.cells.append(tuple(cells))

    def _report(self, number: int, problem: str) -> None:
        self.problems.append(f"{self.name}: line {number}: {problem}")


class _Ids:
    """The order of a CoNLL-U sentence's ids: words 1, 2, 3, multiword tokens 1-2 before theirs, empty nodes 2.1."""

    def __init__(self) -> None:
        self.word = 0
        self.empty_node = 0  # behind the last word
        self.token = ""  # the last multiword token,
        self.token_end = 0  # its last word
        self.token_line = 0

    def read(self, text: str, *, number: int) -> tuple[bool, str | None]:
        """Whether it is a word's id, and what is wrong with it."""
        expected = self.word + 1
        match = _ID.fullmatch(text)
        if not match:
            self.word, self.empty_node = expected, 0
            return True, f"{text[:40]!r} is no CoNLL-U id; expected {expected}"
        word, end, node_word, node = (int(part) if part else 0 for part in match.groups())
        if node:
            problem = f"empty node {text} is out of order; expected {self.word}.{self.empty_node + 1}"
            is_next = node_word == self.word and node > self.empty_node
            self.empty_node = node
            return False, None if is_next else problem
        if end:
            is_next = word == expected > self.token_end and end >= word
            self.token, self.token_end, self.token_line = text, end, number
            return False, None if is_next else f"multiword token {text} is out of order; the next word is {expected}"
        self.word, self.empty_node = word, 0
        return True, None if word == expected else f"id {word} is out of order; expected {expected}"

    def unfinished(self) -> list[tuple[int, str]]:
        """The line of a multiword token that goes beyond the last word, and what is wrong there."""
        if self.token_end <= self.word:
            return []
        return [(self.token_line, f"multiword token {self.token}, but the last word is {self.word}")]
