"""Atomic writing and removal of folders.

A folder is written as `NAME.tmp-PID` next to its final path and renamed once all of it has reached the disk.
"""

import ctypes
import errno
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from calque.errors import FolderError
from calque.folders.manifest import MANIFEST, FileEntry, Manifest, decode, read_manifest, render, scan, sha256_of
from calque.folders.stale import held_lock, remove_stale, temporary_path

_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_NO_EXCHANGE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


def write_folder(
    path: Path,
    *,
    kind: str,
    format: int,
    fill: Callable[[Path], Mapping[str, Any] | None],
    details: Mapping[str, Any] | None = None,
    replace: bool = False,
) -> Manifest:
    """Writes a folder, whose files `fill(folder)` creates. Returns its manifest. If anything fails, nothing changes.

    The manifest contains `details` and any details that `fill` returns. With `replace`, an existing folder of the same
    kind is exchanged for the new one atomically.
    """
    unfinished = temporary_path(path, stage="tmp")
    try:
        _make_folders(path.parent)
        remove_stale(path.parent, names=re.compile(re.escape(path.name)))
        _check_destination(path, kind=kind, replace=replace)
        unfinished.mkdir()
        try:
            with held_lock(unfinished) as held:
                if held is False:
                    raise FolderError(f"{path} is being written by another process")
                learnt = fill(unfinished)
                manifest = _seal(unfinished, kind=kind, format=format, details={**(details or {}), **(learnt or {})})
                _publish(unfinished, path=path)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)  # after an exchange, this is the old folder
    except FolderError:
        raise
    except Exception as error:
        number = _error_number(error)
        if number is None:
            raise
        message = f"{path} could not be written; what was written before is intact: {failure(number)}"
        raise FolderError(message) from error
    return manifest


def remove_folder(path: Path) -> None:
    """Removes a folder. A half-removed folder is never visible under its name."""
    doomed = temporary_path(path, stage="tmp")
    try:
        shutil.rmtree(doomed, ignore_errors=True)
        path.rename(doomed)
        try:
            sync(path.parent)
        finally:
            if doomed.is_dir() and not doomed.is_symlink():
                shutil.rmtree(doomed, ignore_errors=True)
            else:
                doomed.unlink()
    except OSError as error:
        raise FolderError(f"{path} could not be removed: {failure(error.errno)}") from error


def sync(path: Path) -> None:
    """Flushes a file or folder to the disk, so that it survives a crash."""
    if sys.platform == "win32" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def failure(number: int | None) -> str:
    """A description of the error number of a failed write, with advice if the disk is full."""
    meaning = os.strerror(number or errno.EIO)
    return f"the disk is full ({meaning}); free some space and start again" if number in _FULL else meaning


def _seal(folder: Path, *, kind: str, format: int, details: dict[str, Any]) -> Manifest:
    sizes, problems = scan(folder)
    if problems or MANIFEST in sizes:
        raise FolderError(
            "\n  ".join([f"{folder}: cannot be listed in a manifest:", *(problems or [f"{MANIFEST}: a reserved name"])])
        )
    _share_modes(folder, names=sizes)
    files = {name: FileEntry(size, sha256_of(folder / name)) for name, size in sorted(sizes.items())}
    manifest = Manifest(kind, format, files, details)
    for name in files:
        sync(folder / name)
    for inner in sorted({(folder / name).parent for name in files} - {folder}):
        sync(inner)
    (folder / MANIFEST).write_bytes(render(manifest))
    sync(folder / MANIFEST)
    sync(folder)
    return manifest


def _share_modes(folder: Path, *, names: Iterable[str]) -> None:
    """Gives files the permissions that the umask gives new ones, as some libraries make files only the owner can read.

    The mode is derived from that of `folder`, as the umask cannot be read without changing it for other threads.
    """
    mode = stat.S_IMODE(folder.stat().st_mode) & 0o666
    for name in names:
        with suppress(PermissionError):  # file systems without modes
            if stat.S_IMODE((folder / name).stat().st_mode) != mode:
                (folder / name).chmod(mode)


def _publish(unfinished: Path, *, path: Path) -> None:
    replaces = os.path.lexists(path)
    if replaces:
        _exchange(unfinished, path)
    else:
        unfinished.rename(path)
    try:
        sync(path.parent)
    except BaseException:
        with suppress(OSError):
            if replaces:
                _exchange(unfinished, path)
            else:
                path.rename(unfinished)
        raise


def _exchange(new: Path, path: Path) -> None:
    if _renameat2_exchange(new, path):
        return
    aside = temporary_path(path, stage="old")
    with held_lock(path):
        path.rename(aside)
        try:
            new.rename(path)
        except BaseException:
            aside.rename(path)
            raise
        aside.rename(new)


def _renameat2_exchange(first: Path, second: Path) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if renameat2(here, os.fsencode(first), here, os.fsencode(second), exchange) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(second))


def _check_destination(path: Path, *, kind: str, replace: bool) -> None:
    if not os.path.lexists(path):
        return
    if path.is_symlink() or not path.is_dir():
        raise FolderError(f"{path} is not a folder; choose another name, or rename what is there")
    if not any(path.iterdir()):
        return
    if not replace:
        raise FolderError(f"{path} already exists; choose another name, or rename what is there")
    try:
        existing_kind = decode(read_manifest(path), path=path).get("kind")
    except FolderError as error:
        raise FolderError(
            f"{error}\nThe folder was not replaced, because Calque may not have written it; choose another name, or "
            "rename it"
        ) from None
    if existing_kind != kind:
        raise FolderError(
            f"{path} already exists and contains a {existing_kind}, not a {kind}; choose another name, or rename what "
            "is there"
        )


def _make_folders(folder: Path) -> None:
    if not folder.is_dir():
        _make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


def _error_number(error: Exception) -> int | None:
    """The errno of an error, including errors that Rust code (safetensors) reports as text; None if it has none."""
    if isinstance(error, OSError):
        return error.errno
    match = re.search(r"\(os error (\d+)\)", str(error))
    return int(match[1]) if match else None
