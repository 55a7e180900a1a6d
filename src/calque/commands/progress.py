"""Progress on standard error for the slow parts of commands; nothing when piped."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from calque.training.reporting import terminal


@contextmanager
def preparing() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for work of several phases: call it with (what, done, of how much; 0 when nobody knows)."""
    with _bar(transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                for other in tasks.values():
                    bar.update(other, visible=False)
                tasks[what] = bar.add_task(what, total=total or None)
            bar.update(tasks[what], completed=done, visible=not total or done < total)

        yield report


@contextmanager
def counting(what: str, *, total: int | None, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A bar that counts to `total`: call it with how many more are done."""
    with _bar(transient=False, quiet=quiet) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.update(task, advance=more)


def _bar(*, transient: bool, quiet: bool = False) -> Progress:
    console = terminal()
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=transient,
        disable=quiet or not console.is_terminal,
    )
