"""Journals: append-only JSON lines that can be cut back to where a checkpoint stood (`metrics.jsonl`, `timing.jsonl`).

A journal's own bytes depend on what was appended only: no clock, no spaces, keys in the order given. Floats are written
so that they read back to the same bits; JSON has no NaN and no infinities, so these are the strings "NaN", "Infinity"
and "-Infinity", which `read_journal` turns back into floats.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from calque.errors import FolderError
from calque.folders import failure, sync

_NAMES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Journal:
    """One open journal. Every line is handed to the kernel at once, so that killing the process loses none.

    A last line without its end, left by a power cut in the middle of a write, is cut away on opening.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        is_new = not path.exists()
        self._file = path.open("ab", buffering=0)
        self._position = _end_of_lines(path)
        self._file.truncate(self._position)
        if is_new:
            sync(path.parent)

    @property
    def position(self) -> int:
        """Bytes so far, always at the end of a line: what a checkpoint records (call `sync` before saving it)."""
        return self._position

    def append(self, values: Mapping[str, Any]) -> None:
        """Adds one line; on a full disk raises a FolderError and leaves the lines before it as they were."""
        line = json.dumps(_strict(values), allow_nan=False, separators=(",", ":")).encode() + b"\n"
        try:
            written = 0
            while written < len(line):
                written += self._file.write(line[written:]) or 0
        except OSError as error:
            self._file.truncate(self._position)
            raise FolderError(
                f"{self.path} could not be written; its lines so far are intact: {failure(error.errno)}"
            ) from error
        self._position += len(line)

    def cut(self, position: int) -> None:
        """Cuts back to a position that a checkpoint recorded; refuses one that no end of a line is at."""
        if position > self._position:
            raise FolderError(
                f"{self.path} has {self._position} bytes, but the checkpoint recorded {position}: lines were lost. "
                "Put the file back as it was, or move the run folder away"
            )
        if position != 0 and not (position > 0 and _ends_line(self.path, position)):
            raise FolderError(
                f"{self.path} was changed: no line ends at byte {position}, which the checkpoint recorded"
            )
        self._file.truncate(position)
        self._position = position
        self.sync()

    def sync(self) -> None:
        """Returns once every line has reached the disk."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise FolderError(f"{self.path} could not be written: {failure(error.errno)}") from error

    def close(self) -> None:
        """Lets go of the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_journal(path: Path, *, counts: Sequence[str] = (), sure: int | None = None) -> list[dict[str, Any]]:
    """Every whole line of a journal, oldest first; a journal that does not exist yet has none.

    Lines without one of these `counts`, whole numbers, are refused. Behind the byte `sure` that a checkpoint recorded,
    lines may never have reached the disk as they were written: there, what would be refused is left out.
    """
    if not path.exists():
        return []
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise FolderError(f"{path} could not be read: {failure(error.errno)}") from error
    found, begin = [], 0
    for number, line in enumerate(lines, start=1):
        try:
            found.append(_read_line(line, number=number, path=path, counts=counts))
        except FolderError:
            if sure is None or begin < sure:
                raise
        begin += len(line) + 1
    return found


def _read_line(line: bytes, *, number: int, path: Path, counts: Sequence[str]) -> dict[str, Any]:
    try:
        values = _loose(json.loads(line))
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise FolderError(f"{path}, line {number}: not a JSON object")
    for name in counts:
        if not isinstance(values.get(name), int):
            raise FolderError(f"{path}, line {number}: it does not say {name!r}; was the file changed?")
    return values


def _strict(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Mapping():
            return {key: _strict(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_strict(inner) for inner in value]
        case _:
            return value


def _loose(value: Any) -> Any:
    match value:
        case str():
            return _NAMES.get(value, value)
        case dict():
            return {key: _loose(inner) for key, inner in value.items()}
        case list():
            return [_loose(inner) for inner in value]
        case _:
            return value


def _end_of_lines(path: Path) -> int:
    """The position after the last whole line, found by reading backwards."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0


def _ends_line(path: Path, position: int) -> bool:
    with path.open("rb") as file:
        file.seek(position - 1)
        return file.read(1) == b"\n"
