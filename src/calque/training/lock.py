"""The lock of a run folder: one trainer at a time.

The kernel releases the lock however the trainer dies, so no stale lock can be left behind. The file `RUN/lock` stays;
it contains the id of the process that locked it.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from calque.errors import FolderError
from calque.folders import is_running

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK = "lock"


@contextmanager
def run_lock(folder: Path, *, patience: float = 5.0) -> Iterator[None]:
    """Locks the run folder for this process. Raises a FolderError that names the process that holds the lock.

    Worker processes of a killed trainer hold its lock until they exit. If the owner of the lock is dead, this therefore
    waits for up to `patience` seconds.
    """
    path = folder / LOCK
    handle = _open(path)
    try:
        deadline = time.monotonic() + patience
        while not _try_lock(handle, path=path):
            owner = _owner(handle)
            if (owner is not None and is_running(owner)) or time.monotonic() > deadline:
                raise FolderError(_refusal(folder, owner=owner))
            time.sleep(0.05)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        try:
            yield
        finally:
            with suppress(OSError):
                os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def owner(folder: Path) -> int | None:
    """The id of the process that is training in a run folder, according to its lock file; None if there is none."""
    with suppress(OSError, ValueError), (folder / LOCK).open("rb") as file:
        number = int(file.read())
        return number if is_running(number) and not _is_free(file.fileno()) else None
    return None


def _is_free(handle: int) -> bool:
    """Whether no process holds the lock; False if the platform cannot tell."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # released when the file is closed
    except OSError:
        return False
    return True


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        raise FolderError(f"{path} could not be opened: {error.strerror}") from error


def _try_lock(handle: int, *, path: Path) -> bool:
    if sys.platform == "win32":
        os.lseek(handle, 1 << 20, os.SEEK_SET)  # Windows blocks reading of locked bytes, so not the process id
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # NFS and Lustre can be mounted without locks
        raise FolderError(
            f"{path} cannot be locked ({error.strerror}), so two trainers could destroy each other's run; keep runs on "
            "a disk that supports file locks"
        ) from error
    return True


def _owner(handle: int) -> int | None:
    text = os.pread(handle, 32, 0).strip()
    return int(text) if text.isdigit() else None


def _refusal(folder: Path, *, owner: int | None) -> str:
    if owner is None:
        return f"{folder} is locked: another process is training in this folder; wait for it or stop it"
    if is_running(owner):
        return f"{folder} is locked: pid {owner} is training in this folder; wait for it or stop it"
    return (
        f"{folder} is locked: the training process {owner} has exited, but its child processes still run; wait for "
        "them or stop them"
    )
