"""What a prepared store was made from, as plain values that can be compared."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from calque.config import Config
from calque.data.corpora import DataConfig, paths
from calque.errors import DataError
from calque.folders import sha256_of
from calque.text import GivenConfig, TextConfig
from calque.text.folder import DESCRIPTION

FORMAT = 2
_MATTERS_NOT = ("data.store", "data.shifted")


def fingerprint(data: DataConfig, *, text: TextConfig) -> dict[str, str]:
    """Every setting that shapes a store, and the SHA-256 of every corpus file under the key that names it.

    Paths are not part of it: files that were moved are the same files.
    """
    files = corpus_files(data)
    _refuse_unreadable(files)
    settings = dict(_flatten("data", data.model_dump(mode="json"))) | dict(_flatten("text", _values(text)))
    if isinstance(text, GivenConfig):
        settings["text.path"] = sha256_of(text.folder / DESCRIPTION)  # which names its files by their SHA-256
    if data.valid:  # then nothing is held out
        settings = {key: value for key, value in settings.items() if not key.startswith("data.validation.")}
    hashes = {key: sha256_of(path) for key, path in files.items()}
    rest = {
        key: value
        for key, value in settings.items()
        if key not in _MATTERS_NOT and not key.endswith("].alignments")  # the file counts, where there is one
    }
    return {"format": str(FORMAT), **rest, **hashes}


def digest(fingerprint: Mapping[str, str]) -> str:
    """The fingerprint as one SHA-256."""
    return hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()


def differences(before: Mapping[str, str], *, now: Mapping[str, str], files: Mapping[str, Path]) -> list[str]:
    """What changed between two fingerprints, one thing a line; `files` names the corpus files as they are now."""
    changes = []
    for key in [*before, *(key for key in now if key not in before)]:
        if before.get(key) == now.get(key):
            continue
        if key in files and key in before:
            changes.append(f"{key}: the contents of {files[key]} changed")
        elif key not in now:
            changes.append(f"{key}: was {before[key]}, is gone")
        elif key not in before:
            changes.append(f"{key}: is new")
        else:
            changes.append(f"{key}: was {before[key]}, is {now[key]}")
    return changes


def corpus_files(data: DataConfig) -> dict[str, Path]:
    """Every file of every corpus, under the key that names it."""
    return {
        f"data.{role}[{number}].{key}": path
        for role, corpora in (("train", data.train), ("valid", data.valid))
        for number, corpus in enumerate(corpora, start=1)
        for key, path in paths(corpus).items()
    }


def _refuse_unreadable(files: Mapping[str, Path]) -> None:
    problems = []
    for key, path in files.items():
        if not path.exists():
            problems.append(f"{key}: {path}: no such file")
        elif path.is_dir():
            problems.append(f"{key}: {path}: is a folder, not a file")
        elif not path.is_file():
            problems.append(f"{key}: {path}: not a plain file, and it must be read more than once")
        else:
            try:
                path.open("rb").close()
            except OSError as error:
                problems.append(f"{key}: {path}: {error.strerror}")
    if problems:
        raise DataError("\n".join(problems))


def _values(config: Config) -> object:
    return config.model_dump(mode="json")


def _flatten(name: str, value: object) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for key, item in value.items():
                yield from _flatten(f"{name}.{key}", item)
        case list():
            for number, item in enumerate(value, start=1):
                yield from _flatten(f"{name}[{number}]", item)
        case _:
            yield name, json.dumps(value, ensure_ascii=False)
