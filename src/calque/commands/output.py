"""Output files that appear only when complete, and that the same command can resume after an interruption."""

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
from calque.commands.inputs import exists, is_pipe
from calque.commands.standard_streams import ClosedOutput
from calque.errors import CalqueError, DataError
from calque.folders import MANIFEST, sha256_of, sync
from calque.folders.stale import held_lock
from calque.parsing import parse_json


class ResumableFile:
    """A context that writes FILE.part, with its progress in FILE.part.json, and renames it to FILE at the end.

    `checkpoint` records in the JSON file how many lines and bytes are complete. If the same command wrote an
    earlier FILE.part from the same files, writing resumes after these lines; any other FILE.part is discarded.
    `made_from` is the fingerprint of the command and its files, or None if an input cannot be read again. If FILE is a
    symbolic link, its target is written.
    """

    def __init__(self, path: Path, *, made_from: str | None = None) -> None:
        self.requested, self.path = path, Path(os.path.realpath(path))
        self.part, self.note = (self.path.with_name(f"{self.path.name}.{end}") for end in ("part", "part.json"))
        self.made_from = made_from
        self.lines = 0
        """The number of lines kept from an earlier FILE.part; known once FILE.part is open."""
        self.errors = 0
        """The number of kept lines that could not be translated."""
        self.discarded = 0
        """The number of lines discarded from a FILE.part that another command wrote."""

    def __enter__(self) -> "ResumableFile":
        with ExitStack() as stack:
            stack.enter_context(_locked(self.part, output=self.requested))
            self.lines, size = self._resume_point()
            if not self.lines:  # removed on disk before the part is truncated, so that it never describes other bytes
                self.note.unlink(missing_ok=True)
                sync(self.part.parent)
            self._file: BinaryIO = stack.enter_context(self.part.open("r+b"))
            self._file.truncate(size)
            self._file.seek(size)
            self._open = stack.pop_all()
        return self

    def _resume_point(self) -> tuple[int, int]:
        """How many lines and bytes of the interrupted output FILE.part can be kept; zeros if it cannot be resumed."""
        try:
            note = parse_json(self.note.read_text(encoding="utf-8"))
            is_same = self.made_from is not None and note["made_from"] == self.made_from
            if is_same and self.part.stat().st_size >= note["bytes"]:
                self.errors = note["errors"]
                return note["lines"], note["bytes"]
            self.discarded = note["lines"]
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return 0, 0

    def write(self, data: bytes) -> None:
        with self._named_errors():
            self._file.write(data)

    def flush(self) -> None:
        with self._named_errors():
            self._file.flush()

    def checkpoint(self, lines: int, *, errors: int = 0) -> None:
        """Records that this many lines are written, and how many of them could not be translated."""
        if self.made_from is None:
            return
        with self._named_errors():
            self._file.flush()
            os.fsync(self._file.fileno())
            note = {"made_from": self.made_from, "lines": lines, "errors": errors, "bytes": self._file.tell()}
            temporary = self.note.with_name(f"{self.note.name}.tmp")
            temporary.write_text(json.dumps(note), encoding="utf-8")
            sync(temporary)
            temporary.replace(self.note)

    def _named_errors(self) -> AbstractContextManager[None]:
        return _named_errors(self.requested, note=self.note)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._named_errors(), self._open:
            self._file.flush()
            os.fsync(self._file.fileno())
            if kind is None:
                self.part.replace(self.path)
                sync(self.path.parent)
                self.note.unlink(missing_ok=True)
            elif not self._file.tell():
                self.part.unlink(missing_ok=True)


class DirectOutput:
    """An output that is written directly and never replaced: standard output, a pipe or a device."""

    lines = errors = 0

    def __init__(self, path: Path | None) -> None:
        self.path, self.name = path, str(path or "standard output")

    def __enter__(self) -> "DirectOutput":
        self._file: BinaryIO = sys.stdout.buffer if self.path is None else self.path.open("ab")
        return self

    def write(self, data: bytes) -> None:
        with _named_errors(self.name):
            self._file.write(data)

    def flush(self) -> None:
        with _named_errors(self.name):
            self._file.flush()

    def checkpoint(self, lines: int, *, errors: int = 0) -> None:
        """Does nothing: standard output, a pipe or a device cannot be resumed after an interruption."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path is not None:
            with _named_errors(self.name):
                self._file.close()


def sink(path: Path | None, *, made_from: str | None = None) -> ResumableFile | DirectOutput:
    """The output of a command: a resumable file for a plain file, direct output otherwise."""
    return ResumableFile(path, made_from=made_from) if path is not None and is_replaceable(path) else DirectOutput(path)


def write_text(path: Path, text: str) -> None:
    """Writes a text file that appears only when it is complete."""
    with sink(path) as out:
        out.write(text.encode())


def refuse_output(output: Path | None, *inputs: Path | None, option: str = "--output") -> None:
    """Raises a DataError if an output is a folder, is in a missing folder, or is one of the inputs."""
    if output and output.is_dir():
        raise DataError(f"{output} is a folder; name a file for {option}")
    if output and output.is_file() and any(path and exists(path) and output.samefile(path) for path in inputs):
        raise DataError(f"{output} is also an input and would be overwritten; choose another {option}")
    if output and is_replaceable(output):
        folder = (Path(os.path.realpath(output)) if output.is_symlink() else output).parent
        if not folder.is_dir():
            problem = "is a file, not a folder" if folder.exists() else "no such folder; create it first"
            raise DataError(f"{output}: cannot be written: {folder}: {problem}")


def is_replaceable(path: Path) -> bool:
    """Whether a new file may replace the path: it is a plain file or missing, and not a name such as /dev/fd/1."""
    folder = os.path.realpath(path.parent)
    return not (is_pipe(path) or folder in ("/dev", "/dev/fd") or folder.startswith("/proc/"))


def fingerprint(
    *, models: Sequence[Path], input: Path | None, files: Sequence[Path | None], settings: list[Any]
) -> str | None:
    """The SHA-256 of all that an output depends on; None if an input is stdin or a pipe, which cannot be read twice."""
    inputs = [input, *files]
    if input is None or any(path is not None and is_pipe(path) for path in inputs):
        return None
    folders = [model / "model" if (model / "model").is_dir() else model for model in models]
    parts: list[Any] = [__version__, settings, [sha256_of(folder / MANIFEST) for folder in folders]]
    parts += [None if path is None else sha256_of(path) for path in inputs]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@contextmanager
def _named_errors(name: Path | str, *, note: Path | None = None) -> Iterator[None]:
    """A context that adds the output's name to write errors and, if the progress file `note` exists, how to resume.

    Errors caused by a closed pipe or stream are left to the caller.
    """
    try:
        yield
    except (BrokenPipeError, ClosedOutput):
        raise
    except OSError as error:
        resumable = "; what was written before is intact, and the same command resumes from there"
        suffix = resumable if note and note.exists() else ""
        raise CalqueError(f"{name}: {error.strerror or error}{suffix}") from None


@contextmanager
def _locked(part: Path, *, output: Path) -> Iterator[None]:
    """A context that holds a lock on the file `part`, created if missing; a DataError if another process holds it."""
    while True:
        try:
            part.open("ab").close()
        except OSError as error:
            raise DataError(f"{output}: cannot be written: its temporary file {part.name}: {error.strerror}") from None
        with ExitStack() as stack:
            try:
                before = part.stat()
                is_locked = stack.enter_context(held_lock(part))
                is_still_there = os.path.samestat(before, part.stat())
            except FileNotFoundError:  # another process has just renamed it
                continue
            if is_locked is False:
                raise DataError(
                    f"{output}: another process is writing this file; wait until it is done, or choose another --output"
                )
            if is_still_there:
                yield
                return
