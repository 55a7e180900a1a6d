"""The records of a run: `metrics.jsonl`, `timing.jsonl`, `samples.txt`, `gradients.jsonl` and TensorBoard's files.

They are all in the run folder; if the folder is deleted during training, nothing is written in its place.

Only `timing.jsonl` depends on the clock, so that the others have the same bytes however often a run was killed and
resumed.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from calque.errors import FolderError, RankError
from calque.training.journal import Journal
from calque.training.tensorboard import TensorBoard

GRADIENTS = "gradients.jsonl"


class Sizes(NamedTuple):
    """The sizes of the records in bytes, which a checkpoint saves."""

    metrics: int = 0
    samples: int = 0
    gradients: int = 0


class Records:
    """The open records of a run. Only the leading rank `writes`; on other ranks, every method does nothing."""

    def __init__(
        self, folder: Path, *, writes: bool = True, tensorboard: bool = False, gradients: bool = False
    ) -> None:
        self._stack = ExitStack()
        self._metrics = self._stack.enter_context(Journal(folder / "metrics.jsonl")) if writes else None
        self._timing = self._stack.enter_context(Journal(folder / "timing.jsonl")) if writes else None
        has_gradients = writes and (gradients or (folder / GRADIENTS).exists())
        self._gradients = self._stack.enter_context(Journal(folder / GRADIENTS)) if has_gradients else None
        self._board = self._stack.enter_context(TensorBoard(folder if writes and tensorboard else None))
        self._samples = folder / "samples.txt"
        self._folder = folder
        self._identity = _identity(folder) if writes else None
        self.watch = Stopwatch()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def refuse_deleted(self) -> None:
        """Raises a RankError if the run folder was deleted, moved or replaced since training began."""
        if self._identity is not None and _identity(self._folder) != self._identity:
            raise RankError(
                f"{self._folder}: this run folder was deleted or moved while the run was training, so training has "
                "stopped. All steps of this run are lost unless there is a copy of the folder; nothing was written in "
                "its place. If it was moved, resume it there: calque train --resume FOLDER"
            )

    @contextmanager
    def deletion_reported(self) -> Iterator[None]:
        """A context in which a failed write raises the error of `refuse_deleted` if the run folder is gone."""
        try:
            yield
        except (OSError, FolderError):
            self.refuse_deleted()
            raise

    def add(self, line: Mapping[str, Any]) -> None:
        """Appends a line of metrics."""
        if self._metrics:
            self._metrics.append(line)
            self._board.add(line)

    def add_gradients(self, line: Mapping[str, Any]) -> None:
        """Appends a line of gradient flow."""
        if self._gradients:
            self._gradients.append(line)

    def add_timing(self, *, step: int, seconds: float, tokens_per_second: float) -> None:
        """Appends the speed of the steps since the last line."""
        if self._timing:
            line = {"step": step, "seconds": seconds, "tokens_per_second": tokens_per_second, "at": time.time()}
            self._timing.append(line)

    def add_samples(self, step: int, samples: Sequence[str]) -> None:
        """Appends the samples of a validation, each a block of lines."""
        if self._metrics and samples:
            with self._samples.open("a", encoding="utf-8") as file:
                file.write(f"step {step}\n\n" + "\n".join(samples) + "\n")

    def sync(self) -> Sizes:
        """Flushes the journals to disk and returns the sizes of the records."""
        if self._metrics is None:
            return Sizes()
        self._metrics.sync()
        if self._gradients:
            self._gradients.sync()
        return Sizes(
            self._metrics.position,
            self._samples.stat().st_size if self._samples.exists() else 0,
            self._gradients.position if self._gradients else 0,
        )

    def cut(self, sizes: Sizes, *, step: int) -> None:
        """Cuts off the records written after the checkpoint of `step`; training will write them again."""
        if self._gradients:
            self._gradients.cut(sizes.gradients)
        if self._metrics:
            self._metrics.cut(sizes.metrics)
            if self._samples.exists():
                with self._samples.open("r+b") as file:
                    file.truncate(min(sizes.samples, self._samples.stat().st_size))
        self._board.begin(step=step)


def _identity(folder: Path) -> tuple[int, int] | None:
    """The device and inode number of a folder; None if it does not exist."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Stopwatch:
    """Measures seconds of training. It can be paused for validation and saving."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    def restart(self) -> float:
        """Restarts the stopwatch and returns the seconds since its last start."""
        now = time.monotonic()
        seconds, self._since = now - self._since, now
        return seconds

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A context whose duration is not counted."""
        started = time.monotonic()
        yield
        self._since += time.monotonic() - started
