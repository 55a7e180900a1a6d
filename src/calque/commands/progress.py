"""Progress bars on standard error, shown only if it is a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from calque.training.reporting import terminal


@contextmanager
def preparing() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar for work in phases. Yields a function to call with (phase, done, total); total is 0 if unknown."""
    with _bar(transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def report(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                for earlier in tasks.values():
                    bar.update(earlier, visible=False)
                tasks[phase] = bar.add_task(phase, total=total or None)
            bar.update(tasks[phase], completed=done, visible=not total or done < total)

        yield report


@contextmanager
def counting(what: str, *, total: int | None, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A progress bar that counts to `total`. Yields a function to call with the number of items just completed."""
    with _bar(transient=False, quiet=quiet) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.update(task, advance=count)


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
