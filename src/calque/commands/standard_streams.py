"""Makes standard streams usable even if they were closed before the command started: `calque translate RUN <&-`."""

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, NoReturn, TextIO

from calque.errors import DataError, UserError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


class ClosedOutput(UserError, OSError):  # noqa: N818 - the state of a stream
    """Raised if a command writes to a closed standard output.

    It is also an OSError, which `train` ignores when it prints the run folder at its end.
    """


def prepare_streams() -> None:
    """Makes every standard stream usable, and lets standard output print paths that are not UTF-8, byte for byte.

    Reading a closed standard input or writing to a closed standard output raises a UserError; messages to a closed
    standard error are discarded. Python sets a closed stream to None, and the next file that the process opens gets its
    descriptor, so that a library that writes to standard error could write into a checkpoint. Each such descriptor is
    therefore occupied by a folder, which can be neither read nor written (so `--input /dev/stdin` is rejected too), or
    for standard error by the null device.
    """
    if sys.stdin is None:
        _take(0, os.sep, os.O_RDONLY)
        sys.stdin = _text(_ClosedInput())
    if sys.stdout is None:
        _take(1, os.sep, os.O_RDONLY)
        sys.stdout = _text(_ClosedOutput())
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")
    if sys.stderr is None:
        _take(2, os.devnull, os.O_WRONLY)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


class _ClosedInput(io.RawIOBase):
    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> NoReturn:
        raise DataError("standard input is closed; name a file with --input, or pipe text into the command")


class _ClosedOutput(io.RawIOBase):
    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer", /) -> NoReturn:
        error = ClosedOutput("standard output is closed; redirect it to a file, or use --output if the command has it")
        error.errno = errno.EBADF
        raise error


def _text(stream: io.RawIOBase) -> TextIO:
    """A text stream without a buffer, so that no buffered write can fail when Python exits."""
    return io.TextIOWrapper(stream, encoding="utf-8", write_through=True)  # type: ignore[type-var]


def _take(descriptor: int, path: str, flags: int) -> None:
    """Opens a path under the free file descriptor `descriptor`, or the null device if the path cannot be opened."""
    try:
        opened = os.open(path, flags)
    except OSError:  # Windows opens no folders
        opened = os.open(os.devnull, flags)
    if opened != descriptor:
        os.dup2(opened, descriptor)
        os.close(opened)
