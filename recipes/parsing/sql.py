"""Executes SQL that a model wrote on a database in a file: read-only, within limits of time, memory and rows.

An output of a model is treated as hostile input: it may try to write, to attach other files, or to run for ever. Only
reading is authorised; SQLite itself refuses everything else while it prepares the statement.
"""

import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

STEPS = 1000  # of SQLite's virtual machine between two looks at the clock
ROWS = 10_000  # more rows count as an error
COLUMNS = 100  # of a result or a table
VALUE_BYTES = 100_000  # of a string or a blob
RESULT_BYTES = 10_000_000  # of all rows, as Python objects; one row cannot exceed COLUMNS * VALUE_BYTES by much
QUERY_BYTES = 1_000_000
READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
Values = tuple[Any, ...]


class Denotation(NamedTuple):
    """The result of a query: its rows, or the reason why there are none."""

    rows: tuple[Values, ...] = ()
    error: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether the query returned nothing: no rows, or only NULLs."""
        return not self.error and all(value is None for row in self.rows for value in row)

    def equals(self, other: "Denotation") -> bool:
        """Whether both have the same rows, in any order; the result of a failed query equals no other."""
        return not self.error and not other.error and Counter(self.rows) == Counter(other.rows)


class Database:
    """A database that can only be read.

    >>> with Database(path) as database:
    ...     database.execute("SELECT capital FROM state WHERE state_name = 'texas'").rows
    (('austin',),)
    """

    def __init__(self, path: Path, *, seconds: float = 2.0) -> None:
        """`seconds` is the limit for one query."""
        self.seconds = seconds
        self._deadline = 0.0
        self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        self._connection.set_authorizer(_authorise)
        self._connection.set_progress_handler(self._is_late, STEPS)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, COLUMNS)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, QUERY_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.close()

    def execute(self, query: str) -> Denotation:
        """The rows of one query, or its error if it fails, takes too long or returns too much."""
        self._deadline = time.monotonic() + self.seconds
        try:
            return _limited(self._connection.execute(query))
        except (sqlite3.Error, sqlite3.Warning, OverflowError, ValueError, MemoryError) as error:
            return Denotation(error=f"{type(error).__name__}: {error}")

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline


def _limited(found: Iterable[Values]) -> Denotation:
    """The rows, read one by one, or an error as soon as they are too many or too large."""
    rows: list[Values] = []
    size = 0
    for row in found:
        rows.append(row)
        size += sys.getsizeof(row) + sum(map(sys.getsizeof, row))
        if len(rows) > ROWS:
            return Denotation(error=f"more than {ROWS} rows")
        if size > RESULT_BYTES:
            return Denotation(error=f"more than {RESULT_BYTES} bytes")
    return Denotation(tuple(rows))


def _authorise(action: int, *_names: str | None) -> int:
    return sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY
