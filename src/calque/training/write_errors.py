"""Handling of failed output streams: a full disk, a pipe without a reader, a closed terminal."""

import errno
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

CLOSED = (errno.EPIPE, errno.EIO, errno.EBADF)  # a pipe without a reader, a closed terminal, a closed stream


@contextmanager
def ignore_write_errors(stream: TextIO, *, errors: Collection[int] | None = None) -> Iterator[None]:
    """Ignores a failed write to a stream and discards all later output; with `errors`, only for those errno values."""
    try:
        yield
    except OSError as error:
        if errors is not None and error.errno not in errors:
            raise
        with suppress(OSError):  # some streams have no file descriptor
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, stream.fileno())  # else the rest of the buffer would fail again when Python exits
            os.close(devnull)
