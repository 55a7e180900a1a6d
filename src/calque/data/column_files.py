r"""Sentences of labelled words, read from CoNLL-U or from files of plain columns such as those of CoNLL-2000.

A sentence keeps its lines unchanged, so replacing one column of a file changes nothing else: line ends, spaces,
comments and a missing "\n" at the end are preserved. Columns are counted from 1.
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
"""conllu: ten tab-separated columns, with comments. columns: separated by tabs if the line has any, else by spaces."""

CONLLU_COLUMNS = 10
LINE_BYTES = 1 << 16  # the longest line
LATER_LINES = 2048  # lines read after a bad one, to report further problems
SENTENCE_BYTES = 1 << 24  # the longest sentence, including the overhead of its lines in memory

_OVERHEAD = 64
_NUMBER = "[1-9][0-9]{0,8}"
_ID = re.compile(rf"({_NUMBER})(?:-({_NUMBER}))?|(0|{_NUMBER})\.({_NUMBER})")


class ColumnSentence(NamedTuple):
    """A sentence of a column file: its words, the comments before them and the empty line after them.

    Comments and empty lines after the last word of a file form a sentence without words.
    """

    name: str
    """The name of the file, for messages."""
    format: ColumnFormat
    first: int
    """The line number of the sentence's first line, from 1."""
    lines: tuple[bytes, ...]
    """All lines of the sentence, including line ends."""
    words: tuple[int, ...]
    """The indices, from 0, of the lines that are words."""
    cells: tuple[tuple[str, ...], ...]
    """The values of each word's columns."""

    def column(self, number: int) -> list[str]:
        """The value of each word in a column."""
        return [cells[number - 1] for cells in self.cells]


def file_sentences(path: Path, *, format: ColumnFormat, columns: int = 1) -> Iterator[ColumnSentence]:
    """The sentences of a file, plain or compressed; see `read_sentences`."""
    lines = file_lines(path, limit=LINE_BYTES, keep_ends=True)
    return read_sentences(lines, name=str(path), format=format, columns=columns)


def read_sentences(
    lines: Iterable[bytes], *, name: str, format: ColumnFormat, columns: int = 1, first: int = 1
) -> Iterator[ColumnSentence]:
    """Yields every sentence as soon as it is complete; only one sentence is in memory at a time.

    `lines` are those of a file from line number `first` on, including their line ends. Every word must have values in
    the first `columns` columns, and in at least ten in CoNLL-U. The problems of the first malformed line and of the
    2,048 lines after it are raised together as a DataError, each with `name` and line number.
    """
    numbered = enumerate(lines, start=first)
    required = max(columns, CONLLU_COLUMNS if format == "conllu" else 1)
    reader = _Reader(name, format=format, columns=required, first=first)
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
    """The sentence's bytes with a column replaced by `values`, one per word.

    If `column` is the number after the last, a column is appended; in CoNLL-U, multiword tokens and empty nodes have
    `_` in it.   Law: replacing a column with its own values returns the bytes that were read.
    """
    assert len(values) == len(sentence.words), f"{len(values)} values for {len(sentence.words)} words"
    by_line = dict(zip(sentence.words, values, strict=True))
    output = []
    for index, raw in enumerate(sentence.lines):
        number = sentence.first + index
        line = _split(raw.decode(), number=number, format=sentence.format)
        is_appended = bool(line.parts) and not line.is_comment and len(line.cells) == column - 1
        value = by_line.get(index, "_" if is_appended else None)
        try:
            output.append(raw if value is None else _replaced(line, column=column, value=value, number=number))
        except ValueError as error:
            raise DataError(f"{sentence.name}: line {number}: {error}") from None
    return b"".join(output)


class _Line(NamedTuple):
    """A line of a column file, split at its separators, which are tabs or spaces."""

    format: ColumnFormat
    mark: str
    """A byte order mark, or an empty string."""
    parts: list[str]
    """If tabs separate the parts, every part is a cell. If spaces do, only the parts that are not empty are cells."""
    separator: str
    end: str
    """Spaces, tabs and the line end after the last cell."""

    @property
    def cell_indices(self) -> list[int]:
        """The indices of those `parts` that are column values rather than empty strings between repeated spaces."""
        return [index for index, part in enumerate(self.parts) if part or self.separator == "\t"]

    @property
    def cells(self) -> list[str]:
        """The values of the line's columns, without spaces around them."""
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
    """The line with a column (from 1) set to `value`. Raises a ValueError if the result could not be parsed back."""
    parts, indices, cells = list(line.parts), line.cell_indices, line.cells
    if column > len(indices) + 1:
        raise ValueError(f"found {len(indices)} columns, so column {column} can be neither replaced nor appended")
    if column > len(indices):
        parts.append(value)
    else:
        part, old = parts[indices[column - 1]], cells[column - 1]
        start = part.index(old)
        parts[indices[column - 1]] = part[:start] + value + part[start + len(old) :]
    changed = line._replace(parts=parts).text
    expected = [*cells[: column - 1], value, *cells[column:]]
    if "\n" in value or _split(changed, number=number, format=line.format).cells != expected:
        separators = "tabs" if line.separator == "\t" else "spaces"
        raise ValueError(
            f"{value!r} cannot be a value in columns separated by {separators}: the line would be read back differently"
        )
    return changed.encode()


class _Reader:
    """Collects the lines of a column file into sentences, and messages about malformed lines."""

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
        """Reads the next line. If it is empty and ends a sentence, returns the sentence; otherwise returns None."""
        if not self.is_ended:
            raise ValueError(f"line {number - 1} has no line end, but lines follow: pass lines including line ends")
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
        """The last sentence if the file does not end with an empty line, otherwise None."""
        return self._complete() if self.lines else None

    def _keep(self, raw: bytes) -> None:
        self.lines.append(raw)
        self.size += len(raw) + _OVERHEAD
        if self.size > SENTENCE_BYTES:
            self._report(
                self.first,
                f"a sentence of at least {len(self.lines):,} lines is too long; put an empty line after every sentence",
            )
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
        """Checks a line of column values; adds the word, unless it is a multiword token or empty node of CoNLL-U."""
        cells = line.cells
        is_word, problem = self.ids.read(cells[0], number=number) if self.format == "conllu" else (True, None)
        if len(cells) < self.columns:
            separators = "tabs" if line.separator == "\t" else "spaces"
            problem = f"found {len(cells)} columns separated by {separators}, expected at least {self.columns}"
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
    """Checks the order of the CoNLL-U ids of a sentence, e.g. 1-2 (a multiword token), 1, 2, 2.1 (an empty node), 3."""

    def __init__(self) -> None:
        self.word = 0
        self.empty_node = 0  # the last one since the last word
        self.token = ""  # the id of the last multiword token
        self.token_end = 0  # its last word
        self.token_line = 0  # its line

    def read(self, text: str, *, number: int) -> tuple[bool, str | None]:
        """Whether `text` is the id of a word, and a message if the id is malformed or out of order, else None."""
        expected = self.word + 1
        match = _ID.fullmatch(text)
        if not match:
            self.word, self.empty_node = expected, 0
            return True, f"{text[:40]!r} is not a CoNLL-U id; expected {expected}"
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
        """The line number and a message if a multiword token extends beyond the last word of the sentence, else []."""
        if self.token_end <= self.word:
            return []
        return [(self.token_line, f"multiword token {self.token} extends beyond the last word, {self.word}")]
