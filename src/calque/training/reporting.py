"""What a person sees of a run: a progress bar on a terminal, one line a validation, and log.txt."""

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class Pace(NamedTuple):
    """How a run is doing at a step."""

    step: int
    epoch: int
    loss: float
    learning_rate: float
    tokens_per_second: float
    padding: float = 0.0  # the share of positions
    skipped: int = 0  # updates so far that were left out


class Reporter:
    """Writes to log.txt and standard error; the bar is there only on a terminal, so piped output stays short."""

    def __init__(self, log: Path | None, *, steps: int, quiet: bool = False) -> None:
        self._log = log
        self._quiet = quiet
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._bar = Progress(
            BarColumn(bar_width=None),
            TextColumn("step {task.completed}/{task.total}{task.fields[pace]} ·"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
        )
        self._task = self._bar.add_task("training", total=steps, pace="", start=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def say(self, *lines: str) -> None:
        """Lines for the terminal and the log."""
        for line in lines:
            self.note(line)
            if not self._quiet:
                self._console.print(line, markup=False)

    def note(self, line: str) -> None:
        """A line for the log alone."""
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as log:
                log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {line}\n")

    def begin(self, step: int) -> None:
        """The bar starts at `step`."""
        self._bar.start()
        self._bar.start_task(self._task)
        self._bar.update(self._task, completed=step)

    def advance(self, step: int) -> None:
        """One more step is done."""
        self._bar.update(self._task, completed=step)

    def pace(self, pace: Pace) -> None:
        """New figures for the bar."""
        skipped = f" · {pace.skipped} left out" if pace.skipped else ""
        text = f"loss {pace.loss:.3f} · {pace.tokens_per_second:,.0f} tok/s · padding {pace.padding:.0%}{skipped}"
        self._bar.update(self._task, completed=pace.step, pace=f" · {text}")
        self.note(f"step {pace.step} · epoch {pace.epoch + 1} · {text} · rate {pace.learning_rate:.2e}")


def samples_text(step: int, rows: Sequence[tuple[str, str, str]]) -> str:
    """Some translations of a validation, for samples.txt."""
    blocks = (f"source       {source}\nreference    {wanted}\ntranslation  {found}\n" for source, wanted, found in rows)
    return f"step {step}\n\n" + "\n".join(blocks) + "\n"
