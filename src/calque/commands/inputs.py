"""Text that commands are given: a file, plain or gzip, or standard input."""

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from calque.errors import DataError

if TYPE_CHECKING:
    from calque.data.lines import Invalid, Line

LINE_LIMIT = 1 << 16  # bytes of a line that are read; a model reads far less


def refuse_unreadable(*paths: Path | None) -> None:
    """Raises a DataError that names every file that cannot be opened, before any work is done."""
    problems = []
    for path in paths:
        try:
            if path is not None and not is_pipe(path):  # a pipe that is opened and closed again has lost its writer
                path.open("rb").close()
        except OSError as error:
            problems.append(f"{path}: {error.strerror or error}")
    if problems:
        raise DataError("\n".join(problems))


def is_pipe(path: Path) -> bool:
    """Whether a path is there and is no file that can be read again: a pipe, a terminal or another device."""
    return path.exists() and not path.is_file() and not path.is_dir()


def input_lines(path: Path | None, *, limit: int = LINE_LIMIT, invalid: "Invalid") -> Iterator["Line"]:
    """The lines of a file, or of standard input, as soon as they are there; what cannot be read is a DataError."""
    from calque.data.lines import read_lines

    name, number = input_name(path), 0
    try:
        with _opened(path) as stream:
            for line in read_lines(stream, limit_bytes=limit, name=name, invalid=invalid):
                number = line.number
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{name}: damaged gzip after line {number}: {error}") from None
    except OSError as error:
        raise DataError(f"{name}: {error.strerror or error}") from None


def input_name(path: Path | None) -> str:
    """What messages call it."""
    return str(path) if path else "standard input"


def _opened(path: Path | None) -> AbstractContextManager[BinaryIO]:
    from calque.data.lines import open_text

    if path is not None:
        return open_text(path)
    try:  # a reader of its own: one thread may wait for input while another ends the program
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except OSError:  # standard input is no file, as in tests
        return closing(sys.stdin.buffer)
