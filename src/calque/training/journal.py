"""Journals: append-only JSON lines that can be cut back to a checkpoint's position (`metrics.jsonl`, `timing.jsonl`).

The bytes of a journal depend only on what was appended: no timestamps, no spaces, keys in the order given. Floats are
written so that they read back to the same bits; JSON has no NaN or infinities, so these become the strings "NaN",
"Infinity" and "-Infinity", which `read_journal` turns back into floats.
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
from calque.parsing import parse_json

_NAMES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Journal:
    """An open journal. Every line is handed to the kernel at once, so that killing the process loses none.

    An incomplete last line, left by a power cut in the middle of a write, is cut off on opening.
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
        """The size in bytes, always at the end of a line. Checkpoints record it; call `sync` before saving it."""
        return self._position

    def append(self, values: Mapping[str, Any]) -> None:
        """Appends one line. Raises a FolderError if the disk is full; the earlier lines stay intact."""
        line = json.dumps(_to_json(values), allow_nan=False, separators=(",", ":")).encode() + b"\n"
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
        """Truncates the journal at a checkpoint's position. Raises a FolderError if no line ends there."""
        if position > self._position:
            raise FolderError(
                f"{self.path} has {self._position} bytes, but the checkpoint recorded {position}: lines were lost. "
                "Restore the file, or move the run folder elsewhere and start the run again"
            )
        if position != 0 and not (position > 0 and _ends_line(self.path, position)):
            raise FolderError(
                f"{self.path} has changed since the checkpoint: no line ends at byte {position} any more. "
                "Restore the file, or move the run folder elsewhere and start the run again"
            )
        self._file.truncate(position)
        self._position = position
        self.sync()

    def sync(self) -> None:
        """Returns once every line is on disk."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise FolderError(f"{self.path} could not be written: {failure(error.errno)}") from error

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_journal(path: Path, *, counts: Sequence[str] = (), durable: int | None = None) -> list[dict[str, Any]]:
    """All complete lines of a journal, oldest first; an empty list if the journal does not exist yet.

    Raises a FolderError if a line lacks one of the integers named in `counts`. After byte `durable`, the position that
    a checkpoint recorded, lines may not have reached the disk intact, so invalid ones are skipped.
    """
    if not path.exists():
        return []
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise FolderError(f"{path} could not be read: {failure(error.errno)}") from error
    entries, start = [], 0
    for number, line in enumerate(lines, start=1):
        try:
            entries.append(_read_line(line, number=number, path=path, counts=counts))
        except FolderError:
            if durable is None or start < durable:
                raise
        start += len(line) + 1
    return entries


def _read_line(line: bytes, *, number: int, path: Path, counts: Sequence[str]) -> dict[str, Any]:
    try:
        values = _from_json(parse_json(line))
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise FolderError(f"{path}, line {number}: not a JSON object")
    for name in counts:
        if not isinstance(values.get(name), int):
            raise FolderError(f"{path}, line {number}: {name!r} is missing or not an integer; was the file changed?")
    return values


def _to_json(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Mapping():
            return {key: _to_json(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_to_json(inner) for inner in value]
        case _:
            return value


def _from_json(value: Any) -> Any:
    match value:
        case str():
            return _NAMES.get(value, value)
        case dict():
            return {key: _from_json(inner) for key, inner in value.items()}
        case list():
            return [_from_json(inner) for inner in value]
        case _:
            return value


def _end_of_lines(path: Path) -> int:
    """The byte position after the last complete line of a file, found by reading backwards."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
    return 0


def _ends_line(path: Path, position: int) -> bool:
    with path.open("rb") as file:
        file.seek(position - 1)
        return file.read(1) == b"\n"
