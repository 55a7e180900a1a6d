r"""Reading lines of text in bounded memory, however long a line is.

Only "\n" ends a line: U+2028, form feeds and other breaks are text. A "\r" before the "\n" and a byte order mark at the
start of a file are stripped. A line longer than the limit is truncated and marked as such.
"""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple, Protocol

from calque.data.compression import DamagedError, decompressed, read_magic
from calque.errors import DataError
from calque.text.cleaning import strip_bom, strip_return

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Invalid = Literal["fail", "skip", "replace"]

LINE_LIMIT = 1 << 16  # bytes read per line; models read far less


_CHUNK = 1 << 17  # bytes


class Chunked(Protocol):
    """A stream, such as an `io.BufferedReader`, whose `read1` returns the bytes of a single read of its source."""

    def read1(self, size: int, /) -> bytes: ...


class Line(NamedTuple):
    """One line of a stream. Every line of the input becomes exactly one `Line`."""

    text: str
    number: int  # from 1
    cut: bool
    """Whether the line is longer than the limit; `text` is then its beginning."""
    invalid: int | None
    """The first byte (from 1) that is not UTF-8. It is replaced in `text`, or `text` is empty if lines are skipped."""


def read_lines(stream: BinaryIO, *, limit_bytes: int, name: str, invalid: Invalid) -> Iterator[Line]:
    """Yields every line of a stream as soon as it arrives; `name` is the stream's name in error messages."""
    for number, raw in enumerate(raw_lines(stream, limit=limit_bytes), start=1):
        cut = len(raw) > limit_bytes
        text, invalid_byte = decode(raw[:limit_bytes], whole=not cut)
        if invalid_byte and invalid == "fail":
            raise DataError(f"{name}: {describe(number, invalid_byte, raw)}")
        if invalid_byte and invalid == "skip":
            text = ""
        if number == 1:
            text, _ = strip_bom(text)
        yield Line(text if cut else strip_return(text)[0], number, cut, invalid_byte)


def path_lines(path: Path, *, limit: int = LINE_LIMIT, invalid: Invalid) -> Iterator[Line]:
    """Yields every line of a file or pipe, plain or compressed. Raises a DataError if it cannot be read."""
    with readable(str(path)) as position, open_text(path) as stream:
        for line in read_lines(stream, limit_bytes=limit, name=str(path), invalid=invalid):
            position.line = line.number
            yield line


class Position:
    """The number of the last line that was read from a stream."""

    line = 0


@contextmanager
def readable(name: str) -> Iterator[Position]:
    """A context that turns errors while reading a stream into a DataError with its name and the last line read."""
    position = Position()
    try:
        yield position
    except (EOFError, zlib.error, gzip.BadGzipFile, DamagedError) as error:
        format = error.format if isinstance(error, DamagedError) else "gzip"
        raise DataError(f"{name}: damaged {format} after line {position.line}: {error}") from None
    except OSError as error:
        raise DataError(f"{name}: {error.strerror or error}") from None


def raw_lines(stream: BinaryIO, *, limit: int, keep_ends: bool = False) -> Iterator[bytes]:
    r"""Yields every line, with its "\n" if `keep_ends`. Lines of more than `limit` bytes are cut to `limit` + 1."""
    while raw := stream.readline(limit + 2):
        if raw.endswith(b"\n"):
            yield raw if keep_ends else raw[:-1]
        elif len(raw) <= limit + 1:  # the last line, without a line break
            yield raw
        else:
            yield raw[: limit + 1]
            while raw and not raw.endswith(b"\n"):
                raw = stream.readline(1 << 16)


def line_lists(stream: Chunked, *, limit: int) -> Iterator[list[bytes]]:
    """Yields the lines of `raw_lines` in one list per chunk that is read, which is faster than one call per line."""
    beginning: list[bytes] = []  # of a line whose end has not been read
    size = 0
    while chunk := stream.read1(_CHUNK):
        rest, *lines = chunk.split(b"\n")
        if size <= limit:
            beginning.append(rest)
            size += len(rest)
        if lines:
            lines.insert(0, b"".join(beginning))
            last = lines.pop()
            beginning, size = [last], len(last)
            yield _cut(lines, limit=limit)
    if size:
        yield _cut([b"".join(beginning)], limit=limit)


def _cut(lines: list[bytes], *, limit: int) -> list[bytes]:
    is_long = max(map(len, lines)) > limit
    return [line[: limit + 1] for line in lines] if is_long else lines


def decode(raw: bytes, *, whole: bool = True) -> tuple[str, int | None]:
    """The decoded text, with U+FFFD for invalid bytes, and the position of the first invalid byte (from 1).

    If a line is not `whole`, it may end in the middle of a character.
    """
    try:
        return codecs.utf_8_decode(raw, "strict", whole)[0], None
    except UnicodeDecodeError as error:
        return codecs.utf_8_decode(raw, "replace", whole)[0], error.start + 1


NOT_UTF8 = "is not UTF-8 here"


def describe(line: int, byte: int, raw: bytes) -> str:
    """A message with the position and value of an invalid byte."""
    return f"line {line}, byte {byte}: 0x{raw[byte - 1]:02x} {NOT_UTF8}"


class Digest(Protocol):
    """An object updated with bytes as they are read, such as `hashlib.sha256()`."""

    def update(self, data: bytes, /) -> None: ...


@contextmanager
def open_text(path: Path, *, digest: Digest | None = None) -> "Iterator[io.BufferedReader[Any]]":
    """Opens a file or a pipe as a stream of decompressed bytes; `digest` is updated with the bytes on disk.

    The path is opened once, because the bytes read to recognise the compression cannot be read from a pipe again.
    """
    with path.open("rb", buffering=0) as file:
        magic = read_magic(file)
        stream = io.BufferedReader(_Prepended(magic, file, digest), 1 << 16)
        yield decompressed(stream, magic=magic, path=path)


def file_lines(path: Path, *, limit: int, keep_ends: bool = False, digest: Digest | None = None) -> Iterator[bytes]:
    """The `raw_lines` of a file, plain or compressed. Raises a DataError if the file cannot be read.

    At the end, `digest` has been updated with the whole file.
    """
    with readable(str(path)) as position, open_text(path, digest=digest) as stream:
        for position.line, line in enumerate(raw_lines(stream, limit=limit, keep_ends=keep_ends), start=1):
            yield line


def file_line_lists(path: Path, *, limit: int, digest: Digest | None = None) -> Iterator[list[bytes]]:
    """The `line_lists` of a file, plain or compressed, with the errors and the digest of `file_lines`."""
    with readable(str(path)) as position, open_text(path, digest=digest) as stream:
        for lines in line_lists(stream, limit=limit):
            position.line += len(lines)
            yield lines


class _Prepended(io.RawIOBase):
    """A stream with the bytes `head` in front of it. The digest, if given, is updated with all bytes that are read."""

    def __init__(self, head: bytes, stream: io.FileIO, digest: Digest | None) -> None:
        self.head, self.stream, self.digest = head, stream, digest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int | None:
        view = memoryview(buffer)
        if self.head:
            count: int | None = min(len(view), len(self.head))
            view[:count], self.head = self.head[:count], self.head[count:]
        else:
            count = self.stream.readinto(buffer)
        if self.digest is not None and count:
            self.digest.update(bytes(view[:count]))
        return count
