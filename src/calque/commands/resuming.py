"""Output files that are finished by the same command when they were cut off."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from calque import __version__
from calque.folders import MANIFEST, sync


class Part:
    """FILE.part and FILE.part.json while FILE is being written; a context whose `write` goes to the part.

    After each window the JSON says how many lines and bytes are whole. A part that was made by the same command from
    the same files is gone on with from there, any other is begun anew; FILE appears when all is there, or not at all.
    """

    def __init__(
        self, path: Path, *, models: Sequence[Path], inputs: Sequence[Path | None], settings: list[Any]
    ) -> None:
        self.path = path
        self.part, self.note = (path.with_name(f"{path.name}.{end}") for end in ("part", "part.json"))
        self.made_from = _fingerprint(models, inputs, settings) if inputs[0] is not None else None
        self.lines, self._bytes = self._found()

    def _found(self) -> tuple[int, int]:
        """How many lines and bytes of an earlier part can be kept."""
        try:
            note = json.loads(self.note.read_text(encoding="utf-8"))
            is_same = self.made_from is not None and note["made_from"] == self.made_from
            if is_same and self.part.stat().st_size >= note["bytes"]:
                return note["lines"], note["bytes"]
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return 0, 0

    def __enter__(self) -> "Part":
        self._file: BinaryIO = self.part.open("r+b" if self.lines else "wb")
        self._file.truncate(self._bytes)
        self._file.seek(self._bytes)
        return self

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def reached(self, lines: int) -> None:
        """All lines up to this one are written."""
        self._file.flush()
        os.fsync(self._file.fileno())
        note = {"made_from": self.made_from, "lines": lines, "bytes": self._file.tell()}
        temporary = self.note.with_name(f"{self.note.name}.tmp")
        temporary.write_text(json.dumps(note), encoding="utf-8")
        sync(temporary)
        temporary.replace(self.note)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        if kind is None:
            self.part.replace(self.path)
            sync(self.path.parent)
            self.note.unlink(missing_ok=True)


def _fingerprint(models: Sequence[Path], inputs: Sequence[Path | None], settings: list[Any]) -> str:
    """A SHA-256 of everything the output depends on."""
    folders = [model / "model" if (model / "model").is_dir() else model for model in models]
    parts: list[Any] = [__version__, settings, [_sha256(folder / MANIFEST) for folder in folders]]
    parts += [None if path is None else _sha256(path) for path in inputs]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
