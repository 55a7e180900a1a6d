"""Removal of unfinished folders that killed processes left. A process locks the folder that it is writing."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_UNFINISHED = re.compile(r"(?P<name>.+)\.(?P<stage>tmp|old)-(?P<pid>[0-9]{1,10})")


def remove_stale(parent: Path, *, names: re.Pattern[str]) -> None:
    """Removes temporary copies, left in `parent` by killed processes, of folders whose names match `names`.

    A folder that was moved aside to be replaced, but was not replaced, is restored.
    """
    with suppress(OSError):
        for entry in sorted(parent.iterdir()):  # "old" sorts before "tmp"
            match = _UNFINISHED.fullmatch(entry.name)
            if match and names.fullmatch(match["name"]) and _is_abandoned(entry, pid=int(match["pid"])):
                original = parent / match["name"]
                if match["stage"] == "old" and not os.path.lexists(original):
                    entry.rename(original)
                else:
                    shutil.rmtree(entry, ignore_errors=True)


def temporary_path(path: Path, *, stage: str) -> Path:
    """The path next to `path` for a temporary folder of this process; `stage`, `tmp` or `old`, is part of its name."""
    return path.with_name(f"{path.name}.{stage}-{os.getpid()}")


@contextmanager
def held_lock(folder: Path) -> Iterator[bool | None]:
    """Holds the lock of a folder within the context, if no other process holds it.

    Yields True if the lock is held here, False if another process holds it, None if folders cannot be locked.
    """
    if sys.platform == "win32":
        yield None
        return
    handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held: bool | None = True
        except BlockingIOError:
            held = False
        except OSError:
            held = None
        yield held
    finally:
        os.close(handle)


def is_running(pid: int) -> bool:
    """Whether a process with this id is running on this machine; True where that cannot be determined."""
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _is_abandoned(folder: Path, *, pid: int) -> bool:
    try:
        with held_lock(folder) as held:
            return not is_running(pid) if held is None else held
    except OSError:
        return False
