"""Progress reports of a run: a progress bar on a terminal, one line per validation, and log.txt."""

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from calque.training.write_errors import ignore_write_errors


class Pace(NamedTuple):
    """The figures of a progress report: step, epoch, loss, learning rate, speed, padding and skipped updates."""

    step: int
    epoch: int
    loss: float
    learning_rate: float
    tokens_per_second: float
    padding: float = 0.0  # as a share of all positions
    skipped: int = 0  # updates so far whose loss or gradient was not finite


class _SafeStream:
    """Wraps a text stream and ignores errors when writing to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with ignore_write_errors(self._stream):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with ignore_write_errors(self._stream):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def terminal() -> Console:
    """A console on standard error that ignores failed writes and does not wrap lines."""
    stream = None if sys.stderr is None else cast(TextIO, _SafeStream(sys.stderr))
    return Console(file=stream, stderr=True, highlight=False, soft_wrap=True)


SILENCE = 60.0
"""After this many seconds of silence, piped output gets a line about the pace, to show that the run is alive."""


class Reporter:
    """Writes to log.txt and standard error. A progress bar appears only on a terminal, so piped output stays short.

    If the terminal or pipe is closed, only its output is lost: the log and the run continue.
    """

    def __init__(self, log: Path | None, *, steps: int, quiet: bool = False) -> None:
        self._log = log
        self._quiet = quiet
        self._console = terminal()
        self._bar = Progress(
            BarColumn(bar_width=None),
            TextColumn("step {task.completed}/{task.total}{task.fields[pace]} ·"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
        )
        self._task = self._bar.add_task("training", total=steps, pace="", start=False)
        self._steps = steps
        self._begun = self._spoken = time.monotonic()
        self._first = 0  # the step at which this process began

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def say(self, *lines: str) -> None:
        """Writes lines to the terminal and the log."""
        self._spoken = time.monotonic()
        for line in lines:
            self.note(line)
            if not self._quiet:
                self._console.print(line, markup=False)

    def note(self, line: str) -> None:
        """Writes a line to the log only."""
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as log:
                log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {line}\n")

    def begin(self, step: int) -> None:
        """Starts the bar at `step`."""
        self._begun, self._first = time.monotonic(), step
        self._bar.start()
        self._bar.start_task(self._task)
        self._bar.update(self._task, completed=step)

    def advance(self, step: int) -> None:
        """Moves the bar to `step`."""
        self._bar.update(self._task, completed=step)

    def pace(self, pace: Pace) -> None:
        """Shows the loss and speed of the last steps in the progress bar, and logs them."""
        skipped = f" · {pace.skipped} skipped" if pace.skipped else ""
        text = f"loss {pace.loss:.3f} · {pace.tokens_per_second:,.0f} tokens/s · padding {pace.padding:.0%}{skipped}"
        self._bar.update(self._task, completed=pace.step, pace=f" · {text}")
        self.note(f"step {pace.step} · epoch {pace.epoch + 1} · {text} · learning rate {pace.learning_rate:.2e}")
        is_silent = time.monotonic() - self._spoken >= SILENCE
        if is_silent and not self._quiet and not self._console.is_terminal:
            self._spoken = time.monotonic()
            left = (self._spoken - self._begun) / max(1, pace.step - self._first) * (self._steps - pace.step)
            remaining = f"about {max(1, round(left / 60))} min left"
            self._console.print(f"step {pace.step:,} of {self._steps:,} · {text} · {remaining}", markup=False)
