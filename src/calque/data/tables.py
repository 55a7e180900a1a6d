r"""TSV and CSV tables of text: their configs, the parsing of CSV records, and the columns that a header names.

CSV follows RFC 4180: a cell in double quotes may contain delimiters, line breaks, and quotes written twice. A quote
inside a cell that does not begin with one is text. TSV has no quoting: only tabs and line breaks are special.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, field_validator, model_validator

from calque.config import Config
from calque.errors import DataError
from calque.text.cleaning import BYTE_ORDER_MARK

RECORD_BYTES = 1 << 24  # the longest record; beyond it, a quote has probably not been closed

CONTINUATION = b"\n"
"""Stands for every line of a record but the first. No record equals it, because a record is never just a line break."""

TableColumn = Annotated[int, Field(ge=1)] | Annotated[str, Field(min_length=1)]
Weight = Annotated[float, Field(gt=0)]

_SHOWN = 8  # names of columns


class Layout(NamedTuple):
    """The positions of source and target in a table's records."""

    indices: tuple[int, int]
    """The indices of the source cell and the target cell, from 0."""
    width: int | None
    """The number of cells of every record; None if it may vary."""


class TableFormat(NamedTuple):
    """The format of a table of text (delimiter, quoting, header), and which of its columns are source and target."""

    delimiter: str
    is_quoted: bool
    has_header: bool
    columns: tuple[int | str, int | str]
    """The source and the target column: a number from 1, or a name in the header."""

    def cells(self, record: str) -> list[str]:
        """The cells of a record. Raises a ValueError that describes a malformed record."""
        return quoted_cells(record, delimiter=self.delimiter) if self.is_quoted else record.split(self.delimiter)

    def layout(self, head: bytes) -> Layout:
        """The positions of source and target in a table whose first record is `head`.

        Raises a ValueError if the header lacks a column.
        """
        cells = self.cells(head.decode(errors="replace").removeprefix(BYTE_ORDER_MARK).removesuffix("\r"))
        if not self.has_header:
            source, target = (int(column) - 1 for column in self.columns)
            return Layout((source, target), len(cells) if self.is_quoted else None)
        source, target = (self._index(column, names=[cell.strip() for cell in cells]) for column in self.columns)
        return Layout((source, target), len(cells))

    @property
    def separator(self) -> str:
        """The delimiter's name in messages."""
        return "tabs" if self.delimiter == "\t" else repr(self.delimiter)

    def _index(self, column: int | str, *, names: list[str]) -> int:
        listed = ", ".join(map(repr, names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
        hint = f"; is the file really separated by {self.separator}?" if len(names) == 1 else ""
        if isinstance(column, int):
            if column > len(names):
                raise ValueError(f"no column {column}; the header has {len(names)}: {listed}{hint}")
            return column - 1
        if names.count(column) != 1:
            problem = "several columns are" if column in names else "no column is"
            raise ValueError(f"{problem} named {column!r}; the header has {listed}{hint}")
        return names.index(column)


class TsvConfig(Config):
    """One file with tab-separated columns, without quoting."""

    kind: Literal["tsv"] = "tsv"
    path: Path
    """The file, plain or compressed."""
    source_column: TableColumn = 1
    """The source column: its number, from 1, or its name in the header."""
    target_column: TableColumn = 2
    """The target column: its number, from 1, or its name in the header."""
    header: bool | None = None
    """Whether the first line names the columns; by default, only if a column is given by name."""
    alignments: Path | None = None
    """Word alignments for guided attention: one line per pair, in Pharaoh format (0-0 1-2)."""
    weight: Weight = 1.0
    """How often an epoch reads each pair; with 0.5, every pair is read once in two epochs."""

    @property
    def format(self) -> TableFormat:
        """How the file is written, and which of its columns are read."""
        columns = (self.source_column, self.target_column)
        has_header = any(isinstance(column, str) for column in columns) if self.header is None else self.header
        return TableFormat("\t", is_quoted=False, has_header=has_header, columns=columns)

    @model_validator(mode="after")
    def _has_names(self) -> "TsvConfig":
        _refuse_names_without_header(self.format)
        if self.format.has_header and self.alignments is not None:
            raise ValueError(
                "word alignments cannot be used with a file that has a header, because line n of the alignments "
                "belongs to line n of the file; remove the header and set header = false"
            )
        return self


class CsvConfig(Config):
    """One file of comma-separated values; quoted cells may contain delimiters, line breaks and doubled quotes."""

    kind: Literal["csv"] = "csv"
    path: Path
    """The file, plain or compressed."""
    source_column: TableColumn = 1
    """The source column: its number, from 1, or its name in the header."""
    target_column: TableColumn = 2
    """The target column: its number, from 1, or its name in the header."""
    header: bool = True
    """Whether the first line names the columns."""
    delimiter: str = ","
    """The character between columns, such as ;"""
    weight: Weight = 1.0
    """How often an epoch reads each pair; with 0.5, every pair is read once in two epochs."""

    @property
    def format(self) -> TableFormat:
        """How the file is written, and which of its columns are read."""
        columns = (self.source_column, self.target_column)
        return TableFormat(self.delimiter, is_quoted=True, has_header=self.header, columns=columns)

    @field_validator("delimiter")
    @classmethod
    def _is_one_character(cls, delimiter: str) -> str:
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
            raise ValueError(
                f"{delimiter!r} cannot be a delimiter: it must be one ASCII character, neither a quote nor a line break"
            )
        return delimiter

    @model_validator(mode="after")
    def _has_names(self) -> "CsvConfig":
        _refuse_names_without_header(self.format)
        return self


def _refuse_names_without_header(format: TableFormat) -> None:
    names = [column for column in format.columns if isinstance(column, str)]
    if names and not format.has_header:
        raise ValueError(
            f"header = false, so columns cannot be given by name ({' and '.join(map(repr, names))}); use column numbers"
        )


TableCorpus = TsvConfig | CsvConfig


def csv_lines(lines: Iterable[bytes], *, delimiter: str, limit: int, name: str) -> Iterator[bytes]:
    """Yields one item per line: at the first line of a record, the whole record; at its other lines, `CONTINUATION`.

    Records longer than `limit` bytes are cut to `limit` + 1. If a quote is not closed within `RECORD_BYTES`, or by the
    end of the file, a DataError names its line.
    """
    record: list[bytes] = []
    first, size, is_open = 1, 0, False
    number = 0
    for number, line in enumerate(lines, start=1):
        if not is_open:
            record, first, size = [], number, 0
        record.append(line)
        size += len(line) + 1
        scanned = line.removeprefix(BYTE_ORDER_MARK.encode()) if number == 1 else line
        is_open = _ends_in_quotes(scanned, delimiter=delimiter.encode(), is_quoted=is_open)
        if is_open and size > RECORD_BYTES:
            raise DataError(
                f"{name}: line {first}: a quote is opened, but not closed within {RECORD_BYTES >> 20} MiB; a cell that "
                "begins with a quote must end with one"
            )
        if not is_open:
            yield b"\n".join(record)[: limit + 1]
            yield from (CONTINUATION for _ in record[1:])
    if is_open:
        raise DataError(
            f"{name}: line {first}: a quote is opened, but not closed by the end of the file at line {number}; a "
            "cell that begins with a quote must end with one"
        )


def quoted_cells(record: str, *, delimiter: str) -> list[str]:
    """The cells of a CSV record. Raises a ValueError that describes a malformed record."""
    if '"' not in record:
        return record.split(delimiter)
    cells: list[str] = []
    start = 0
    while True:
        if record.startswith('"', start):
            end = _closing_quote(record, start + 1)
            if end < 0:
                raise ValueError(f"the quote that opens column {len(cells) + 1} is never closed")
            cells.append(record[start + 1 : end].replace('""', '"'))
            end += 1
            if end < len(record) and record[end] != delimiter:
                raise ValueError(
                    f"column {len(cells)} has text after its closing quote: {record[end : end + 20]!r}; inside quotes, "
                    'a quote is written twice ("")'
                )
        else:
            end = record.find(delimiter, start)
            end = len(record) if end < 0 else end
            cells.append(record[start:end])
        if end >= len(record):
            return cells
        start = end + 1


def _closing_quote(record: str, start: int) -> int:
    """The position of the quote that closes a cell whose text starts at `start`, or -1 if there is none."""
    end = record.find('"', start)
    while end >= 0 and record.startswith('"', end + 1):
        end = record.find('"', end + 2)
    return end


def _ends_in_quotes(line: bytes, *, delimiter: bytes, is_quoted: bool) -> bool:
    """Whether a line ends inside a quoted cell, given whether it begins inside one (`is_quoted`)."""
    if b'"' not in line:
        return is_quoted
    position = 0
    while True:
        if not is_quoted and line.startswith(b'"', position):
            is_quoted, position = True, position + 1
        if is_quoted:
            position = line.find(b'"', position)
            while position >= 0 and line.startswith(b'"', position + 1):
                position = line.find(b'"', position + 2)
            if position < 0:
                return True
            is_quoted = False
        position = line.find(delimiter, position)
        if position < 0:
            return False
        position += 1
