"""The records of a run: `metrics.jsonl`, `timing.jsonl`, `samples.txt` and TensorBoard's files.

They are all in the run folder; if it is deleted while training, nothing is written in its place.

Only `timing.jsonl` depends on the clock, so that the others have the same bytes however often a run was killed and
resumed.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from calque.errors import FolderError, RankError
from calque.training.journal import Journal
from calque.training.tensorboard import TensorBoard


class Records:
    """The open records of a run; only the leading rank `writes`, on the others every method does nothing."""

    def __init__(self, folder: Path, *, writes: bool = True, tensorboard: bool = False) -> None:
        self._stack = ExitStack()
        self._metrics = self._stack.enter_context(Journal(folder / "metrics.jsonl")) if writes else None
        self._timing = self._stack.enter_context(Journal(folder / "timing.jsonl")) if writes else None
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
        """A file that cannot be written because the run folder is gone is reported by `refuse_deleted`."""
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

    def sync(self) -> tuple[int, int]:
        """Flushes the metrics to disk; the sizes of metrics and samples in bytes, which a checkpoint saves."""
        if self._metrics is None:
            return 0, 0
        self._metrics.sync()
        return self._metrics.position, self._samples.stat().st_size if self._samples.exists() else 0

    def cut(self, *, step: int, metrics: int, samples: int) -> None:
        """Cuts off what was written after the checkpoint of `step`; it will be written again."""
        if self._metrics:
            self._metrics.cut(metrics)
            if self._samples.exists():
                with self._samples.open("r+b") as file:
                    file.truncate(min(samples, self._samples.stat().st_size))
        self._board.begin(step=step)


def _identity(folder: Path) -> tuple[int, int] | None:
    """The device and number of a folder; None if it does not exist."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Stopwatch:
    """Measures seconds of training; it can be paused for validation and saving."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    def restart(self) -> float:
        """The seconds since the last restart."""
        now = time.monotonic()
        seconds, self._since = now - self._since, now
        return seconds

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Excludes the time spent within."""
        started = time.monotonic()
        yield
        self._since += time.monotonic() - started
