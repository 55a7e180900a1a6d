"""Folders that are written whole or not at all, and that say when they were damaged.

    write_folder(path, kind="model", format=1, fill=lambda folder: (folder / "a.txt").write_text("a"))
    verify_folder(path, kind="model", formats=[1])

A folder grows as `NAME.tmp-PID` beside its place and is renamed into it when everything has reached the disk.
`manifest.json` lists every file with its size and SHA-256 and carries a seal over itself, so that no flipped
bit goes unseen. The writer holds a lock on its unfinished folder: what nobody holds was left by a killed process
and is removed by the next write (on Windows, which has no such locks, it stays).
"""

import ctypes
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from calque.errors import FolderError

if sys.platform != "win32":
    import fcntl

MANIFEST = "manifest.json"
LARGEST_MANIFEST = 4 << 20
LARGEST_FOLDER = 1 << 40

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_UNFINISHED = re.compile(r"(?P<name>.+)\.(?P<stage>tmp|old)-(?P<pid>[0-9]{1,10})")
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_CHANGED = f"{MANIFEST}: changed since it was written (its seal does not fit)"
_NO_EXCHANGE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


class FileEntry(NamedTuple):
    """What a manifest says of one file."""

    size: int
    sha256: str


class Manifest(NamedTuple):
    """What a folder holds: `files` by name (`weights.safetensors`, `tokenizer/pieces.model`), `details` as JSON."""

    kind: str
    format: int
    files: dict[str, FileEntry]
    details: dict[str, Any]


# --- Writing ---


def write_folder(
    path: Path,
    *,
    kind: str,
    format: int,
    fill: Callable[[Path], None],
    details: Mapping[str, Any] | None = None,
    replace: bool = False,
) -> Manifest:
    """The manifest of a new folder whose files `fill(folder)` wrote; on any failure nothing has changed.

    With `replace`, an older folder of the same kind is exchanged for the new one in one step.
    """
    unfinished = _beside(path, stage="tmp")
    try:
        _make_folders(path.parent)
        remove_litter(path.parent, names=re.compile(re.escape(path.name)))
        _check_place(path, kind=kind, replace=replace)
        unfinished.mkdir()
        try:
            with _held(unfinished) as held:
                if held is False:
                    raise FolderError(f"{path} is being written by another process")
                fill(unfinished)
                manifest = _seal(unfinished, kind=kind, format=format, details=dict(details or {}))
                _publish(unfinished, path=path)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)  # after an exchange this is the old one
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
    """Removes a folder so that no half-removed one can be seen under its name."""
    doomed = _beside(path, stage="tmp")
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


def remove_litter(parent: Path, *, names: re.Pattern[str]) -> None:
    """Removes what killed writers of folders called `names` left; a folder that was moved aside is put back."""
    with suppress(OSError):
        for entry in sorted(parent.iterdir()):  # "old" sorts before "tmp"
            found = _UNFINISHED.fullmatch(entry.name)
            if found and names.fullmatch(found["name"]) and _is_abandoned(entry, pid=int(found["pid"])):
                place = parent / found["name"]
                if found["stage"] == "old" and not os.path.lexists(place):
                    entry.rename(place)
                else:
                    shutil.rmtree(entry, ignore_errors=True)


def sync(path: Path) -> None:
    """Returns once a file or folder has reached the disk."""
    if sys.platform == "win32" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _seal(folder: Path, *, kind: str, format: int, details: dict[str, Any]) -> Manifest:
    sizes, problems = _scan(folder)
    if problems or MANIFEST in sizes:
        raise FolderError("\n  ".join([f"{folder}: cannot be sealed", *(problems or [f"{MANIFEST}: reserved"])]))
    files = {name: FileEntry(size, _sha256(folder / name)) for name, size in sorted(sizes.items())}
    manifest = Manifest(kind, format, files, details)
    for name in files:
        sync(folder / name)
    for inner in sorted({(folder / name).parent for name in files} - {folder}):
        sync(inner)
    (folder / MANIFEST).write_bytes(_render(manifest))
    sync(folder / MANIFEST)
    sync(folder)
    return manifest


def _render(manifest: Manifest) -> bytes:
    body = {
        "kind": manifest.kind,
        "format": manifest.format,
        "details": manifest.details,
        "files": {name: entry._asdict() for name, entry in manifest.files.items()},
    }
    return json.dumps(body | {"seal": _seal_of(body)}, indent=1, allow_nan=False).encode() + b"\n"


def _seal_of(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, allow_nan=False).encode()).hexdigest()


def _is_sealed(values: dict[str, Any]) -> bool:
    """Whether the seal fits, or there is none: then it is somebody else's manifest, or its entries are looked at."""
    body = {key: value for key, value in values.items() if key != "seal"}
    try:
        return "seal" not in values or _seal_of(body) == values["seal"]
    except ValueError:  # a NaN, which no manifest of ours holds
        return False


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
    aside = _beside(path, stage="old")
    with _held(path):
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


def _check_place(path: Path, *, kind: str, replace: bool) -> None:
    if not os.path.lexists(path):
        return
    if path.is_symlink() or not path.is_dir():
        raise FolderError(f"{path} is not a folder; choose another name or move it away")
    if not any(path.iterdir()):
        return
    if not replace:
        raise FolderError(f"{path} exists already; choose another name or move it away")
    try:
        found = _decode(_read_manifest(path), path=path).get("kind")
    except FolderError as error:
        raise FolderError(f"{error}\nIt is not replaced, since it may be something else; move it away") from None
    if found != kind:
        raise FolderError(f"{path} is of kind {found!r}, not {kind!r}, so it is not replaced; move it away")


def _make_folders(folder: Path) -> None:
    if not folder.is_dir():
        _make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


def _beside(path: Path, *, stage: str) -> Path:
    return path.with_name(f"{path.name}.{stage}-{os.getpid()}")


@contextmanager
def _held(folder: Path) -> Iterator[bool | None]:
    """Holds a folder's lock: True, False if somebody else has it, None where folders cannot be locked."""
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


def _is_abandoned(folder: Path, *, pid: int) -> bool:
    try:
        with _held(folder) as held:
            return not is_running(pid) if held is None else held
    except OSError:
        return False


def is_running(pid: int) -> bool:
    """Whether a process of this number lives here; where that cannot be asked, yes."""
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _error_number(error: Exception) -> int | None:
    """The system's number of an error, also of those that come out of Rust (safetensors) as text."""
    if isinstance(error, OSError):
        return error.errno
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else None


def failure(number: int | None) -> str:
    """What an error number means to someone who wanted to write: a full disk is called so."""
    meaning = os.strerror(number or errno.EIO)
    return f"the disk is full ({meaning}); free some space and start again" if number in _FULL else meaning


# --- Reading ---


def verify_folder(path: Path, *, kind: str, formats: Collection[int]) -> Manifest:
    """The manifest of a folder that holds exactly what it says; otherwise a FolderError with every problem."""
    manifest = survey_folder(path, kind=kind, formats=formats)
    with _reading(path):
        changed = [name for name, entry in manifest.files.items() if _sha256(path / name) != entry.sha256]
    _refuse(path, [f"{name}: changed since it was written (its SHA-256 differs)" for name in changed])
    return manifest


def survey_folder(path: Path, *, kind: str, formats: Collection[int]) -> Manifest:
    """What `verify_folder` gives, without reading the files: names and sizes are right, nothing is a link."""
    with _reading(path):
        raw = _read_manifest(path)
        values = _decode(raw, path=path)
        if not _is_sealed(values):  # before its kind is believed to be another
            _refuse(path, [_CHANGED])
        manifest = _parse(values, path=path, kind=kind, formats=formats)
        if _render(manifest) != raw:
            _refuse(path, [_CHANGED])
        found, problems = _scan(path)
    _refuse(path, [*problems, *_differences(manifest.files, found)])
    return manifest


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FolderError(f"{error.filename or path} could not be read: {error.strerror}") from error


def _differences(listed: Mapping[str, FileEntry], found: Mapping[str, int]) -> Iterator[str]:
    for name, entry in listed.items():
        if name not in found:
            yield f"{name}: missing"
        elif found[name] != entry.size:
            yield f"{name}: {found[name]} bytes found, {entry.size} expected"
    for name in sorted(found.keys() - listed.keys() - {MANIFEST}):
        yield f"{name}: not listed in {MANIFEST}"


def _refuse(path: Path, problems: list[str]) -> None:
    if problems:
        raise FolderError("\n".join([f"{path} is damaged:", *(f"  {problem}" for problem in problems)]))


def _read_manifest(path: Path) -> bytes:
    if path.is_symlink():
        raise FolderError(f"{path} is a link; give the folder itself")
    if not path.is_dir():
        raise FolderError(f"{path} is not a folder")
    try:
        status = (path / MANIFEST).lstat()
    except FileNotFoundError:
        raise FolderError(f"{path} has no {MANIFEST}: it was not written by Calque, or is damaged") from None
    if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_MANIFEST:
        _refuse(path, [f"{MANIFEST}: not a plain file of at most {LARGEST_MANIFEST} bytes"])
    return (path / MANIFEST).read_bytes()


def _decode(raw: bytes, *, path: Path) -> dict[str, Any]:
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise FolderError(f"{path} is damaged:\n  {MANIFEST}: not a JSON object")
    return values


def _parse(values: dict[str, Any], *, path: Path, kind: str, formats: Collection[int]) -> Manifest:
    found, format = values.get("kind"), values.get("format")
    files, details = values.get("files"), values.get("details")
    if found != kind:
        raise FolderError(f"{path} is a folder of kind {found!r}; expected {kind!r}")
    if type(format) is not int or format not in formats:
        newer = type(format) is int and format > max(formats)
        why = "made by a newer Calque; update Calque to read it" if newer else "which this Calque does not read"
        raise FolderError(f"{path} has format {format!r}, {why} (it reads {', '.join(map(str, formats))})")
    if not isinstance(files, dict) or not isinstance(details, dict):
        raise FolderError(f"{path} is damaged:\n  {MANIFEST}: `files` and `details` must be objects")
    _refuse(path, [f"{name!r}: {problem}" for name, entry in files.items() for problem in _faults(name, entry)])
    entries = {name: FileEntry(entry["size"], entry["sha256"]) for name, entry in files.items()}
    if sum(entry.size for entry in entries.values()) > LARGEST_FOLDER:
        _refuse(path, [f"{MANIFEST}: lists more than {LARGEST_FOLDER} bytes"])
    return Manifest(kind, format, entries, details)


def _faults(name: str, entry: object) -> Iterator[str]:
    if not _is_plain(name) or name == MANIFEST:
        yield "a name that no file may have here (letters, digits, `_`, `-`, `.`; at most one sub-folder)"
    match entry:
        case {"size": int(size), "sha256": str(sha256), **rest} if not rest and type(size) is int:
            if size < 0 or not _SHA256.fullmatch(sha256):
                yield f"its size or SHA-256 in {MANIFEST} is not valid"
        case _:
            yield f"has no size and SHA-256 in {MANIFEST}"


def _is_plain(name: str) -> bool:
    parts = name.split("/")
    return len(parts) <= 2 and all(_NAME.fullmatch(part) for part in parts)


def _scan(folder: Path) -> tuple[dict[str, int], list[str]]:
    """Sizes of the files in a folder and its sub-folders, and what is wrong with whatever else lies there."""
    sizes: dict[str, int] = {}
    problems = []
    for name, entry in _walk(folder):
        status = entry.stat(follow_symlinks=False)
        mode = status.st_mode
        if stat.S_ISLNK(mode):
            problems.append(f"{name}: a link")
        elif not _is_plain(name):
            problems.append(f"{name!r}: a name that no file may have here")
        elif stat.S_ISREG(mode):
            sizes[name] = status.st_size
        elif not stat.S_ISDIR(mode) or "/" in name:
            problems.append(f"{name}: neither a file nor a sub-folder at the top")
        elif not any(Path(entry).iterdir()):
            problems.append(f"{name}: an empty sub-folder")
    return sizes, problems


def _walk(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name, entry
            if entry.is_dir(follow_symlinks=False):
                with os.scandir(entry) as inner:
                    yield from ((f"{entry.name}/{below.name}", below) for below in inner)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
