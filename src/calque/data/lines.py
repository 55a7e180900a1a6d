r"""Lines of text from bytes, in memory that a line's length does not change.

A line ends at "\n" and nowhere else: U+2028, form feeds and other breaks are text. A "\r" before the "\n" and a byte
order mark at the start of a file are taken off. A line beyond the limit is cut, and says so.
"""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple

from calque.errors import DataError
from calque.text.cleaning import strip_bom, strip_return

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Invalid = Literal["fail", "skip", "replace"]

_GZIP = b"\x1f\x8b\x08"


class Line(NamedTuple):
    """One line of a stream; exactly one comes for each line that goes in."""

    text: str
    number: int  # from 1
    cut: bool
    """It was longer than the limit; `text` is its beginning."""
    invalid: int | None
    """The first byte (from 1) that is not UTF-8; replaced in `text`, or `text` is empty where that was asked."""


def read_lines(stream: BinaryIO, *, limit_bytes: int, name: str, invalid: Invalid) -> Iterator[Line]:
    """Every line of a stream as soon as it is there; `name` is for the message if one is not UTF-8."""
    for number, raw in enumerate(raw_lines(stream, limit=limit_bytes), start=1):
        cut = len(raw) > limit_bytes
        text, bad = decode(raw[:limit_bytes], whole=not cut)
        if bad and invalid == "fail":
            raise DataError(f"{name}: {describe(number, bad, raw)}")
        if bad and invalid == "skip":
            text = ""
        if number == 1:
            text, _ = strip_bom(text)
        yield Line(text if cut else strip_return(text)[0], number, cut, bad)


def raw_lines(stream: BinaryIO, *, limit: int, keep_ends: bool = False) -> Iterator[bytes]:
    r"""Every line, with its "\n" only where ends are kept; of one longer than `limit` bytes the first `limit` + 1."""
    while raw := stream.readline(limit + 2):
        if raw.endswith(b"\n"):
            yield raw if keep_ends else raw[:-1]
        elif len(raw) <= limit + 1:  # the last line, not ended
            yield raw
        else:
            yield raw[: limit + 1]
            while raw and not raw.endswith(b"\n"):
                raw = stream.readline(1 << 16)


def decode(raw: bytes, *, whole: bool = True) -> tuple[str, int | None]:
    """The text, U+FFFD where it is not UTF-8, and the first such byte (from 1); half a character may end a cut line."""
    try:
        return codecs.utf_8_decode(raw, "strict", whole)[0], None
    except UnicodeDecodeError as error:
        return codecs.utf_8_decode(raw, "replace", whole)[0], error.start + 1


def describe(line: int, byte: int, raw: bytes) -> str:
    """Where and what an invalid byte is."""
    return f"line {line}, byte {byte}: 0x{raw[byte - 1]:02x} is not UTF-8 here"


@contextmanager
def open_text(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file or a pipe, unpacked if they are gzip.

    It is opened once: what was read of a pipe to know gzip is not there a second time.
    """
    with path.open("rb", buffering=0) as file:
        head = b""
        while len(head) < len(_GZIP) and _GZIP.startswith(head) and (byte := file.read(1)):
            head += byte  # one by one, as a pipe that is still open may hold no more
        stream = io.BufferedReader(_Behind(head, file), 1 << 16)
        yield io.BufferedReader(gzip.GzipFile(fileobj=stream), 1 << 16) if head == _GZIP else stream


def file_lines(path: Path, *, limit: int, keep_ends: bool = False) -> Iterator[bytes]:
    """`raw_lines` of a file, plain or gzip; one that cannot be read is a DataError that names it."""
    number = 0
    try:
        with open_text(path) as stream:
            lines = raw_lines(stream, limit=limit, keep_ends=keep_ends)
            for number, line in enumerate(lines, start=1):  # noqa: B007 - told on failure
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: damaged gzip after line {number}: {error}") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None


class _Behind(io.RawIOBase):
    """A few bytes, and behind them a stream."""

    def __init__(self, head: bytes, stream: io.FileIO) -> None:
        self.head, self.stream = head, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int | None:
        if not self.head:
            return self.stream.readinto(buffer)
        view = memoryview(buffer)
        count = min(len(view), len(self.head))
        view[:count], self.head = self.head[:count], self.head[count:]
        return count
