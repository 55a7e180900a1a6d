"""The user's cache folder, for programs that were compiled on this machine."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path


def private_cache(name: str, *, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder `calque/NAME` in the user's cache folder, created if it does not exist.

    Compiled code is run, so no one else may write there: the folder has mode 0700. Returns None if it belongs to
    someone else or cannot be created.
    """
    root = environment.get("XDG_CACHE_HOME", "")
    try:
        folder = (Path(root) if root.startswith("/") else Path.home() / ".cache") / "calque" / name
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            return None
        folder.chmod(0o700)
    except (OSError, RuntimeError):  # the latter: there is no home folder
        return None
    return folder
