"""The user's cache folder, for programs that were compiled on this machine."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path


def private_cache(name: str, *, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder `calque/NAME` in the user's cache folder, created if it does not exist.

    Compiled code is run, so no one else may write there: the folder has mode 0700. Returns None if it cannot be
    created, if it or the folder `calque` belongs to someone else, or if others could write to it and may have done so.
    """
    root = environment.get("XDG_CACHE_HOME", "")
    try:
        parent = (Path(root) if root.startswith("/") else Path.home() / ".cache") / "calque"
        folder = parent / name
        parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not _is_own(parent):
            return None
        parent.chmod(parent.stat().st_mode & ~0o022)
        folder.mkdir(exist_ok=True, mode=0o700)
        if not _is_own(folder) or folder.stat().st_mode & 0o022:
            return None
        folder.chmod(0o700)
    except (OSError, RuntimeError):  # the latter: there is no home folder
        return None
    return folder


def _is_own(folder: Path) -> bool:
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
