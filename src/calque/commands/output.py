"""Output files that are whole or not there, and that the same command finishes when they were cut off."""

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from calque import __version__
from calque.commands.inputs import is_pipe
from calque.errors import CalqueError, DataError
from calque.folders import MANIFEST, sha256_of, sync
from calque.folders.stale import held_lock


class Part:
    """FILE.part and FILE.part.json while FILE is being written; a context whose `write` goes to the part.

    After each window the JSON says how many lines and bytes are whole. A part that was made by the same command from
    the same files (`made_from` says so; None: of nothing that could be read again) is gone on with from there, any
    other is begun anew; FILE appears when all is there, or not at all. Where FILE is a link, it is what the link names.
    """

    def __init__(self, path: Path, *, made_from: str | None = None) -> None:
        self.given, self.path = path, Path(os.path.realpath(path))
        self.part, self.note = (self.path.with_name(f"{self.path.name}.{end}") for end in ("part", "part.json"))
        self.made_from = made_from
        self.lines = 0
        """How many were kept of an earlier part; known once the part is open."""
        self.discarded = 0
        """How many of another command's part were not."""

    def __enter__(self) -> "Part":
        with ExitStack() as stack:
            stack.enter_context(_held(self.part, of=self.given))
            self.lines, size = self._found()
            if not self.lines:  # gone for good before what it tells of is: it must not speak for another's bytes
                self.note.unlink(missing_ok=True)
                sync(self.part.parent)
            self._file: BinaryIO = stack.enter_context(self.part.open("r+b"))
            self._file.truncate(size)
            self._file.seek(size)
            self._open = stack.pop_all()
        return self

    def _found(self) -> tuple[int, int]:
        """How many lines and bytes of an earlier part can be kept."""
        try:
            note = json.loads(self.note.read_text(encoding="utf-8"))
            is_same = self.made_from is not None and note["made_from"] == self.made_from
            if is_same and self.part.stat().st_size >= note["bytes"]:
                return note["lines"], note["bytes"]
            self.discarded = note["lines"]
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return 0, 0

    def write(self, data: bytes) -> None:
        with self._telling():
            self._file.write(data)

    def flush(self) -> None:
        with self._telling():
            self._file.flush()

    def reached(self, lines: int) -> None:
        """All lines up to this one are written."""
        if self.made_from is None:
            return
        with self._telling():
            self._file.flush()
            os.fsync(self._file.fileno())
            note = {"made_from": self.made_from, "lines": lines, "bytes": self._file.tell()}
            temporary = self.note.with_name(f"{self.note.name}.tmp")
            temporary.write_text(json.dumps(note), encoding="utf-8")
            sync(temporary)
            temporary.replace(self.note)

    def _telling(self) -> AbstractContextManager[None]:
        return _named(self.given, kept=self.note)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._telling(), self._open:
            self._file.flush()
            os.fsync(self._file.fileno())
            if kind is None:
                self.part.replace(self.path)
                sync(self.path.parent)
                self.note.unlink(missing_ok=True)
            elif not self._file.tell():
                self.part.unlink(missing_ok=True)


class Through:
    """Standard output, or what is no plain file (a pipe, a device): written as it comes, never replaced."""

    lines = 0

    def __init__(self, path: Path | None) -> None:
        self.path, self.name = path, str(path or "standard output")

    def __enter__(self) -> "Through":
        self._file: BinaryIO = sys.stdout.buffer if self.path is None else self.path.open("ab")
        return self

    def write(self, data: bytes) -> None:
        with _named(self.name):
            self._file.write(data)

    def flush(self) -> None:
        with _named(self.name):
            self._file.flush()

    def reached(self, lines: int) -> None:
        """Nothing to note: what is written is gone."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path is not None:
            with _named(self.name):
                self._file.close()


def sink(path: Path | None, *, made_from: str | None = None) -> Part | Through:
    """Where the answers of a command go."""
    return Part(path, made_from=made_from) if path is not None and is_replaceable(path) else Through(path)


def refuse_output(output: Path | None, *inputs: Path | None) -> None:
    """Raises a DataError where an output is a folder, has none to be in, or is one of the files it is made from."""
    if output and output.is_dir():
        raise DataError(f"{output}: is a folder; name a file for --output")
    if output and output.is_file() and any(path and path.exists() and output.samefile(path) for path in inputs):
        raise DataError(f"{output}: is an input too, and would be lost; choose another --output")
    if output and is_replaceable(output):
        folder = (Path(os.path.realpath(output)) if output.is_symlink() else output).parent
        if not folder.is_dir():
            found = "is a file, and no folder" if folder.exists() else "there is no such folder; make it first"
            raise DataError(f"{output}: cannot be written: {folder}: {found}")


def is_replaceable(path: Path) -> bool:
    """Whether a new file may stand in its place: it is a plain file or nothing yet, and no open file's other name."""
    home = os.path.realpath(path.parent)
    return not (is_pipe(path) or home in ("/dev", "/dev/fd") or home.startswith("/proc/"))


def fingerprint(
    *, models: Sequence[Path], input: Path | None, files: Sequence[Path | None], settings: list[Any]
) -> str | None:
    """A SHA-256 of everything an output depends on; None where some of it comes through a pipe, which is read once."""
    given = [input, *files]
    if input is None or any(path is not None and is_pipe(path) for path in given):
        return None
    folders = [model / "model" if (model / "model").is_dir() else model for model in models]
    parts: list[Any] = [__version__, settings, [sha256_of(folder / MANIFEST) for folder in folders]]
    parts += [None if path is None else sha256_of(path) for path in given]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@contextmanager
def _named(name: Path | str, *, kept: Path | None = None) -> Iterator[None]:
    """What cannot be written is told by its name, and where there is a note of what is `kept`, that too.

    A pipe whose reader has left is none of its business.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        more = "; what was written before is intact, and the same command goes on from there"
        raise CalqueError(f"{name}: {error.strerror or error}{more if kept and kept.exists() else ''}") from None


@contextmanager
def _held(part: Path, *, of: Path) -> Iterator[None]:
    """Makes the part where there is none, and holds it for this process; a DataError where another one does."""
    while True:
        try:
            part.open("ab").close()
        except OSError as error:
            raise DataError(f"{of}: cannot be written: {part.name} beside it: {error.strerror}") from None
        with ExitStack() as stack:
            try:
                before = part.stat()
                held = stack.enter_context(held_lock(part))
                is_still_there = os.path.samestat(before, part.stat())
            except FileNotFoundError:  # another process has just put it in place
                continue
            if held is False:
                raise DataError(f"{of}: another process is writing it; wait for that one, or choose another --output")
            if is_still_there:
                yield
                return
