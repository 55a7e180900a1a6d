"""The fingerprint of a store of prepared data: the settings and file hashes that it was made from."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from calque.data.compression import unsupported
from calque.data.corpora import DataConfig, paths
from calque.data.store import FORMAT
from calque.errors import DataError
from calque.folders import sha256_of
from calque.text import ColumnsConfig, GivenConfig, TextConfig
from calque.text.folder import DESCRIPTION

_WITHOUT_EFFECT = ("data.store", "data.shifted")


def fingerprint(
    data: DataConfig, *, settings: Mapping[str, str], hashes: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Every setting that affects a store, and the SHA-256 of every corpus file under its config key.

    `settings` are those of the task. The files' `hashes` are computed unless they are passed. Paths are not included,
    so moving a file does not change the fingerprint.
    """
    files = corpus_files(data)
    refuse_unreadable(files)
    data_settings = dict(_flatten("data", data.model_dump(mode="json")))
    if data.valid:  # then no rows are held out
        data_settings = {key: value for key, value in data_settings.items() if not key.startswith("data.validation.")}
    data_settings = {
        key: value
        for key, value in data_settings.items()
        if key not in _WITHOUT_EFFECT
        and not key.endswith("].alignments")  # the file's hash counts instead
        and not (key.endswith("].header") and value == "null")  # stores of earlier versions do not have the key
    }
    file_hashes = {key: sha256_of(path) for key, path in files.items()} if hashes is None else hashes
    return {"format": str(FORMAT), **data_settings, **settings, **file_hashes}


def text_settings(text: TextConfig, *, name: str = "text") -> dict[str, str]:
    """The settings of a text section, by key. Existing tokenizers are identified by their contents, not their paths."""
    settings = dict(_flatten(name, text.model_dump(mode="json")))
    if isinstance(text, GivenConfig):
        settings[f"{name}.path"] = sha256_of(text.folder / DESCRIPTION)  # which holds the SHA-256 of its files
    if isinstance(text, ColumnsConfig):
        settings |= text_settings(text.source, name=f"{name}.source") | text_settings(
            text.target, name=f"{name}.target"
        )
    return settings


def digest(fingerprint: Mapping[str, str]) -> str:
    """The SHA-256 of a fingerprint."""
    return hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()


def differences(before: Mapping[str, str], *, now: Mapping[str, str], files: Mapping[str, Path]) -> list[str]:
    """A message for each change between two fingerprints; `files` are the current corpus files, by key."""
    changes = []
    for key in [*before, *(key for key in now if key not in before)]:
        if before.get(key) == now.get(key):
            continue
        if key in files and key in before:
            changes.append(f"{key}: the contents of {files[key]} changed")
        elif key not in now:
            changes.append(f"{key}: was {before[key]}, is no longer set")
        elif key not in before:
            changes.append(f"{key}: was added")
        else:
            changes.append(f"{key}: was {before[key]}, is {now[key]}")
    return changes


def corpus_files(data: DataConfig) -> dict[str, Path]:
    """Every file of every corpus, under its config key."""
    return {
        f"data.{role}[{number}].{key}": path
        for role, corpora in (("train", data.train), ("valid", data.valid))
        for number, corpus in enumerate(corpora, start=1)
        for key, path in paths(corpus).items()
    }


def refuse_unreadable(files: Mapping[str, Path]) -> None:
    """Raises a DataError that names every corpus file that cannot be read, before any work is done."""
    problems = []
    for key, path in files.items():
        if not path.exists():
            problems.append(f"{key}: {path}: no such file")
        elif path.is_dir():
            problems.append(f"{key}: {path}: is a folder, not a file")
        elif not path.is_file():
            problems.append(
                f"{key}: {path}: not a regular file; a resumed run must read it again, so save the text to a file"
            )
        else:
            try:
                if reason := unsupported(path):
                    problems.append(f"{key}: {path}: {reason}")
            except OSError as error:
                problems.append(f"{key}: {path}: {error.strerror}")
    if problems:
        raise DataError("\n".join(problems))


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
