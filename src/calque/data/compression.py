"""Compressed files: recognised by their first bytes, whatever their name, and decompressed in bounded memory.

Supported are gzip, xz, bzip2 and, if a package for it is installed, Zstandard. A file may consist of several compressed
streams, one after the other, as parallel compressors write them. Anything else after the end of a stream is an error.
Files are written in the format that their suffix implies.
"""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from calque.errors import DataError, shell_path

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SUFFIXES = (".gz", ".xz", ".bz2", ".zst")
"""The usual suffixes of compressed files."""

_CHUNK = 1 << 16  # bytes
_ZSTANDARD_PIECE = 1 << 8  # bytes, decompressed at once; a block of 4 bytes may expand to 128 KiB

_BZIP2_BLOCKS = (bytes.fromhex("314159265359"), bytes.fromhex("177245385090"))  # a first block; an empty file
_MAGIC = {
    b"\x1f\x8b\x08": "gzip",
    b"\xfd7zXZ\0": "xz",
    **{b"BZh%d" % level + block: "bzip2" for level in range(1, 10) for block in _BZIP2_BLOCKS},
    b"\x28\xb5\x2f\xfd": "zstd",
    **{bytes([first]) + b"\x2a\x4d\x18": "zstd" for first in range(0x50, 0x60)},  # frames that are skipped
    b"PK\x03\x04": "zip",
}


class Compressor(Protocol):
    """Compresses bytes piece by piece."""

    def compress(self, data: bytes, /) -> bytes:
        """Compresses further bytes; returns those compressed bytes that are ready, possibly none."""
        ...

    def flush(self) -> bytes:
        """Ends the compressed stream; returns its remaining bytes."""
        ...


class Uncompressed:
    """Leaves bytes as they are."""

    def compress(self, data: bytes, /) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


def compressor_for(path: Path | None) -> Compressor:
    """The compressor that an output's suffix implies; `Uncompressed` for other suffixes and standard output."""
    match path.suffix.lower() if path is not None else "":
        case ".gz":
            return zlib.compressobj(wbits=31)  # gzip without a time, so that equal inputs give equal files
        case ".xz":
            return lzma.LZMACompressor()
        case ".bz2":
            return bz2.BZ2Compressor()
        case ".zst":
            raise DataError(
                f"{path}: Zstandard files can be read but not written; use a name that ends in .gz, .xz or .bz2"
            )
        case _:
            return Uncompressed()


class DamagedError(ValueError):
    """Raised for a compressed stream that is truncated or corrupt; `format` is the name of its format."""

    def __init__(self, format: str, reason: object) -> None:
        super().__init__(str(reason))
        self.format = format


def read_magic(file: io.RawIOBase) -> bytes:
    """The first bytes of a file: as many as are needed to recognise a format, or to rule out all formats.

    They are read one by one, because reading more from an open pipe might block.
    """
    head = b""
    while head not in _MAGIC and any(magic.startswith(head) for magic in _MAGIC) and (byte := file.read(1)):
        head += byte
    return head


def decompressed(stream: "io.BufferedReader[Any]", *, magic: bytes, path: Path) -> "io.BufferedReader[Any]":
    """The decompressed bytes of a stream, or the stream itself if its first bytes, `magic`, are those of no format."""
    name = _MAGIC.get(magic)
    if reason := _unsupported(name, path=path):
        raise DataError(f"{path}: {reason}")
    match name:
        case None:
            return stream
        case "gzip":
            return io.BufferedReader(gzip.GzipFile(fileobj=stream), _CHUNK)
        case "xz":
            codec = _Codec("xz", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), lzma.LZMAError)
        case "bzip2":
            codec = _Codec("bzip2", bz2.BZ2Decompressor, OSError)
        case _:
            zstandard = _zstandard()
            assert zstandard is not None  # `_unsupported` gave a reason otherwise
            codec = zstandard
    return io.BufferedReader(_Decompressed(stream, codec), _CHUNK)


def unsupported(path: Path) -> str | None:
    """A message that says why a compressed file cannot be read, and what to do; None if it can be read."""
    with path.open("rb", buffering=0) as file:
        return _unsupported(_MAGIC.get(read_magic(file)), path=path)


def _unsupported(format: str | None, *, path: Path) -> str | None:
    if format == "zip":
        return f"a ZIP archive, which may hold several files; extract it first: unzip {shell_path(path)}"
    if format == "zstd" and _zstandard() is None:
        return (
            f"compressed with Zstandard; install a package that reads it (pip install zstandard), or decompress the "
            f"file (zstd -d {shell_path(path)})"
        )
    return None


class _Decompressor(Protocol):
    """The common interface of `bz2.BZ2Decompressor` and the other decompressors."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Codec(NamedTuple):
    """A compression format whose files may consist of several streams: its name and how to decompress one stream."""

    name: str
    decompressor: Callable[[], _Decompressor]
    error: type[Exception]
    """Raised for corrupt data."""


def _zstandard() -> _Codec | None:
    """The Zstandard codec of Python 3.14 or of the package `zstandard`; None if neither is available."""
    try:
        from compression import zstd

        return _Codec("zstd", zstd.ZstdDecompressor, zstd.ZstdError)
    except ImportError:
        pass
    try:
        import zstandard

        return _Codec("zstd", _ZstandardDecompressor, zstandard.ZstdError)
    except ImportError:
        return None


class _ZstandardDecompressor:
    """Wraps the package `zstandard`, which cannot limit the output of one call, in the interface of `_Decompressor`."""

    def __init__(self) -> None:
        import zstandard

        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._input, self._output = io.BytesIO(), io.BytesIO()
        self._has_output = False

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof) and not self._has_output

    @property
    def needs_input(self) -> bool:
        return not self._has_output and self._input.tell() == len(self._input.getbuffer())

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data) + self._input.read()

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if data:
            self._input = io.BytesIO(self._input.read() + data)
        while not self._has_output and not self._frame.eof and (piece := self._input.read(_ZSTANDARD_PIECE)):
            output = self._frame.decompress(piece)
            self._output, self._has_output = io.BytesIO(output), bool(output)
        result = self._output.read(max_length)
        self._has_output = self._output.tell() < len(self._output.getbuffer())
        return result


class _Decompressed(io.RawIOBase):
    """A file object that decompresses one or more successive streams and skips zero bytes between them."""

    def __init__(self, stream: "io.BufferedReader[Any]", codec: _Codec) -> None:
        self._stream, self._codec = stream, codec
        self._decompressor = codec.decompressor()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        data = self._read(len(view))
        view[: len(data)] = data
        return len(data)

    def _read(self, size: int) -> bytes:
        while True:
            compressed = b""
            if self._decompressor.eof:
                if not (compressed := self._next_stream()):
                    return b""
                self._decompressor = self._codec.decompressor()
            elif self._decompressor.needs_input and not (compressed := self._stream.read1(_CHUNK)):
                raise DamagedError(self._codec.name, "the file ends in the middle of the compressed data")
            try:
                if data := self._decompressor.decompress(compressed, size):
                    return data
            except self._codec.error as error:
                raise DamagedError(self._codec.name, error) from None

    def _next_stream(self) -> bytes:
        """The first bytes of the next compressed stream; b"" at the end of the file."""
        compressed = self._decompressor.unused_data
        while not (compressed := compressed.lstrip(b"\0")):
            if not (compressed := self._stream.read1(_CHUNK)):
                return b""
        return compressed
