"""The manifest of a folder, and the verification of a folder against it.

`manifest.json` lists every file with its size and SHA-256, and a seal (a SHA-256 of the manifest itself), so that every
flipped bit is detected.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from calque.errors import FolderError
from calque.parsing import parse_json

MANIFEST = "manifest.json"
LARGEST_MANIFEST = 4 << 20
LARGEST_FOLDER = 1 << 40

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CHANGED = f"{MANIFEST}: changed since it was written (the SHA-256 in its key `seal` does not match)"


class FileEntry(NamedTuple):
    """The manifest's entry for one file."""

    size: int
    sha256: str


class Manifest(NamedTuple):
    """The contents of a folder: `files` by name (such as `tokenizer/pieces.model`) and `details` as JSON."""

    kind: str
    format: int
    files: dict[str, FileEntry]
    details: dict[str, Any]


def verify_folder(path: Path, *, kind: str, formats: Collection[int]) -> Manifest:
    """The manifest of a folder. Raises a FolderError that lists every way in which the folder differs from it."""
    manifest = survey_folder(path, kind=kind, formats=formats)
    with _reading(path):
        changed = [name for name, entry in manifest.files.items() if sha256_of(path / name) != entry.sha256]
    _refuse(path, [f"{name}: changed since it was written (its SHA-256 differs)" for name in changed])
    return manifest


def survey_folder(path: Path, *, kind: str, formats: Collection[int]) -> Manifest:
    """`verify_folder` without reading the files: checks names and sizes, and that nothing is a link."""
    with _reading(path):
        raw = read_manifest(path)
        values = decode(raw, path=path)
        if not _is_sealed(values):  # damage is reported before a mismatch of the kind
            _refuse(path, [_CHANGED])
        manifest = _parse(values, path=path, kind=kind, formats=formats)
        if render(manifest) != raw:
            _refuse(path, [_CHANGED])
        sizes, problems = scan(path)
    _refuse(path, [*problems, *_differences(manifest.files, sizes)])
    return manifest


def render(manifest: Manifest) -> bytes:
    """The manifest as JSON, with its seal."""
    body = {
        "kind": manifest.kind,
        "format": manifest.format,
        "details": manifest.details,
        "files": {name: entry._asdict() for name, entry in manifest.files.items()},
    }
    return json.dumps(body | {"seal": _seal_of(body)}, indent=1, allow_nan=False).encode() + b"\n"


def scan(folder: Path) -> tuple[dict[str, int], list[str]]:
    """The sizes of all regular files under a folder, by name, and a message for each link or other entry."""
    sizes: dict[str, int] = {}
    problems = []
    for name, entry in _walk(folder):
        status = entry.stat(follow_symlinks=False)
        mode = status.st_mode
        if stat.S_ISLNK(mode):
            problems.append(f"{name}: is a link")
        elif not _is_allowed(name):
            problems.append(f"{name!r}: not an allowed file name")
        elif stat.S_ISREG(mode):
            sizes[name] = status.st_size
        elif not stat.S_ISDIR(mode) or "/" in name:
            problems.append(f"{name}: neither a regular file nor a top-level sub-folder")
        elif not any(Path(entry).iterdir()):
            problems.append(f"{name}: is an empty sub-folder")
    return sizes, problems


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(path: Path) -> bytes:
    if path.is_symlink():
        raise FolderError(f"{path} is a link; pass the folder itself")
    if not path.is_dir():
        raise FolderError(f"{path} is not a folder")
    try:
        status = (path / MANIFEST).lstat()
    except FileNotFoundError:
        raise FolderError(f"{path} has no {MANIFEST}: it was not written by Calque, or it is damaged") from None
    if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_MANIFEST:
        _refuse(path, [f"{MANIFEST}: not a regular file of at most {LARGEST_MANIFEST} bytes"])
    return (path / MANIFEST).read_bytes()


def decode(raw: bytes, *, path: Path) -> dict[str, Any]:
    try:
        values = parse_json(raw)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise FolderError(f"{path} is damaged:\n  {MANIFEST}: not a JSON object")
    return values


def _seal_of(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, allow_nan=False).encode()).hexdigest()


def _is_sealed(values: dict[str, Any]) -> bool:
    """Whether the seal (SHA-256) matches the manifest. A manifest without a seal passes, and later checks reject it."""
    body = {key: value for key, value in values.items() if key != "seal"}
    try:
        return "seal" not in values or _seal_of(body) == values["seal"]
    except ValueError:  # a NaN, which Calque writes into no manifest
        return False


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FolderError(f"{error.filename or path} could not be read: {error.strerror}") from error


def _differences(listed: Mapping[str, FileEntry], sizes: Mapping[str, int]) -> Iterator[str]:
    for name, entry in listed.items():
        if name not in sizes:
            yield f"{name}: missing"
        elif sizes[name] != entry.size:
            yield f"{name}: {sizes[name]} bytes found, {entry.size} expected"
    for name in sorted(sizes.keys() - listed.keys() - {MANIFEST}):
        yield f"{name}: not listed in {MANIFEST}"


def _refuse(path: Path, problems: list[str]) -> None:
    if problems:
        raise FolderError("\n".join([f"{path} is damaged:", *(f"  {problem}" for problem in problems)]))


def _parse(values: dict[str, Any], *, path: Path, kind: str, formats: Collection[int]) -> Manifest:
    actual_kind, format = values.get("kind"), values.get("format")
    files, details = values.get("files"), values.get("details")
    if actual_kind != kind:
        raise FolderError(f"{path} is a folder of kind {actual_kind!r}; expected {kind!r}")
    if type(format) is not int or format not in formats:
        newer = type(format) is int and format > max(formats)
        reason = "which is newer than this version of Calque; update Calque" if newer else "which Calque cannot read"
        raise FolderError(f"{path} has format {format!r}, {reason} (this version reads {', '.join(map(str, formats))})")
    if not isinstance(files, dict) or not isinstance(details, dict):
        raise FolderError(f"{path} is damaged:\n  {MANIFEST}: `files` and `details` must be objects")
    _refuse(path, [f"{name!r}: {problem}" for name, entry in files.items() for problem in _entry_problems(name, entry)])
    entries = {name: FileEntry(entry["size"], entry["sha256"]) for name, entry in files.items()}
    if sum(entry.size for entry in entries.values()) > LARGEST_FOLDER:
        _refuse(path, [f"{MANIFEST}: lists more than {LARGEST_FOLDER} bytes"])
    return Manifest(kind, format, entries, details)


def _entry_problems(name: str, entry: object) -> Iterator[str]:
    if not _is_allowed(name) or name == MANIFEST:
        yield "not an allowed file name (letters, digits, `_`, `-`, `.`; at most one sub-folder)"
    match entry:
        case {"size": int(size), "sha256": str(sha256), **rest} if not rest and type(size) is int:
            if size < 0 or not _SHA256.fullmatch(sha256):
                yield f"its size or SHA-256 in {MANIFEST} is not valid"
        case _:
            yield f"has no size and SHA-256 in {MANIFEST}"


def _is_allowed(name: str) -> bool:
    parts = name.split("/")
    return len(parts) <= 2 and all(_NAME.fullmatch(part) for part in parts)


def _walk(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name, entry
            if entry.is_dir(follow_symlinks=False):
                with os.scandir(entry) as inner:
                    yield from ((f"{entry.name}/{inner_entry.name}", inner_entry) for inner_entry in inner)
