"""`calque runs`."""

import json
import math
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.cells import cell_len, set_cell_size

from calque.commands.rendering import one_field
from calque.errors import FolderError, UserError


class Row(NamedTuple):
    """What there is to say about a run; None where nobody knows."""

    run: str
    model: str = ""
    pairs: int | None = None
    step: int | None = None
    steps: int | None = None
    metric: str = ""
    best: float | None = None
    at_step: int | None = None
    state: str = ""
    changed: str = ""

    def plain(self) -> list[str]:
        """Fields for programs: a number is nothing but a number, without an exponent, which `sort -n` cannot read."""
        return ["" if value is None else one_field(_written(value)) for value in self]

    def told(self) -> dict[str, str]:
        """Fields for people by the names of COLUMNS, and what is shown of some where there is little room."""
        step, steps, pairs, at_step = (
            "" if each is None else f"{each:,}" for each in (self.step, self.steps, self.pairs, self.at_step)
        )
        return {
            "run": self.run,
            "name": Path(self.run).name or self.run,
            "state": self.state.partition(":")[0].replace("done, stopped early", "done early"),
            "steps": " of ".join(filter(None, (step, steps))),
            "step": step,
            "best": "" if self.best is None else f"{self.metric} {self.best:.2f}",
            "changed": self.changed,
            "day": self.changed.partition(" ")[0],
            "model": self.model,
            "best at": at_step,
            "pairs": pairs,
        }


COLUMNS = ("run", "state", "steps", "best", "changed", "model", "best at", "pairs")  # the most important first
BRIEFLY = {"changed": "day", "steps": "step", "run": "name"}  # in this order
DAMAGED, GAP = "damaged", "  "
DIGITS = 4  # of a score for programs: losses differ by little
NEEDED = 5  # columns that are shown briefly before they are left out


class Saved(NamedTuple):
    """What a checkpoint says of itself."""

    step: int
    since_best: int
    best_steps: int


def runs(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="[FOLDER]...", help="Runs, or folders of runs; runs/ unless said.")
    ] = None,
) -> None:
    """List training runs with their best validation score: a table on a terminal, tab-separated when piped.

    Steps of a run that is not running are those that are saved; one that is stopped goes on with `calque train
    --resume RUN`. A model is told by its kind, its layers and its width. A narrow terminal shows fewer columns.

    Examples:

        calque runs

        calque runs runs/first experiments/ | sort -t$'\\t' -k7,7rn
    """
    found = [run for folder in folders or [Path("runs")] for run in _runs_in(folder)]
    if not found:
        where = ", ".join(map(str, folders)) if folders else "runs"
        raise FolderError(f"{where}: no run here; `calque train` makes one")
    rows = [_row(run) for run in found]
    if not sys.stdout.isatty():
        for fields in (Row._fields, *(row.plain() for row in rows)):
            typer.echo("\t".join(fields))
        return
    damaged = [one_field(row.state) for row in rows if row.state.startswith(DAMAGED)]
    for line in [*table(rows, width=shutil.get_terminal_size().columns), *damaged]:
        typer.echo(line)


def table(rows: Sequence[Row], *, width: int) -> list[str]:
    """A head and one line a run, with as many columns as there is room for; at the least, whose and in what state."""
    told = [row.told() for row in rows]
    for columns in _choices(names_tell=len({row["name"] for row in told}) == len(told)):
        fields = [[head, *(one_field(row[key]) for row in told)] for key, head in columns.items()]
        widths = [max(map(cell_len, column)) for column in fields]
        if sum(widths) + len(GAP) * (len(widths) - 1) <= width:
            break
    padded = ([set_cell_size(each, size) for each in column] for column, size in zip(fields, widths, strict=True))
    return [GAP.join(line).rstrip() for line in zip(*padded, strict=True)]


def _choices(*, names_tell: bool) -> Iterator[dict[str, str]]:
    """Keys and heads of ever fewer and shorter columns; a run's name alone only where it tells which run it is."""
    for count in range(len(COLUMNS), NEEDED, -1):
        yield {name: name for name in COLUMNS[:count]}
    columns = {name: name for name in COLUMNS[:NEEDED]}
    yield columns
    for name, brief in BRIEFLY.items():
        if brief != "name" or names_tell:
            columns = {brief if key == name else key: head for key, head in columns.items()}
            yield columns
    for count in range(NEEDED - 1, 1, -1):
        yield dict(list(columns.items())[:count])


def _runs_in(folder: Path) -> list[Path]:
    """The folder itself where it is a run, or the runs in it, by name (numbers as numbers)."""
    if not folder.is_dir():
        raise FolderError(f"{folder}: {'is a file, and no folder' if folder.exists() else 'no such folder'}")
    if _is_run(folder):
        return [folder]
    inside = [path for path in folder.iterdir() if path.is_dir() and _is_run(path)]
    return sorted(inside, key=lambda path: (int(path.name) if path.name.isdecimal() else math.inf, path.name))


def _is_run(folder: Path) -> bool:
    return (folder / "config.toml").is_file() and not (folder / "manifest.json").exists()


def _written(value: str | float) -> str:
    return f"{value:.{DIGITS}f}" if isinstance(value, float) else f"{value}"


def _row(run: Path) -> Row:
    """What there is to say about a run; of one that cannot be read, why not."""
    try:
        return _read(run)
    except UserError as error:
        problem = str(error).splitlines()[0]
    except OSError as error:
        problem = f"{error.filename or run}: cannot be read: {error.strerror}"
    except RecursionError:
        problem = f"{run / 'config.toml'}: cannot be read: brackets within brackets, too deep"
    return Row(str(run), state=f"{DAMAGED}: {problem}")


def _read(run: Path) -> Row:
    from calque.config import read_toml
    from calque.training.journal import read_journal
    from calque.training.lock import owner
    from calque.training.runs import section, selection_metric

    metrics, origin = run / "metrics.jsonl", run / "config.toml"
    config: dict[str, Any] = read_toml(origin)
    lines = read_journal(metrics, counts=("step",))
    training = section(config, "training", origin=origin)
    sides = [section(config, f"model.{side}", origin=origin) for side in ("encoder", "decoder")]
    metric, _ = selection_metric(run)
    best: dict[str, Any] = next((line for line in reversed(lines) if line.get("best")), {})
    if not isinstance(best.get(metric), float | int | None):
        raise FolderError(f"{metrics}: {metric} of step {best['step']} is {best[metric]!r}, and no number")
    saved = _saved(run)
    is_mean = any("averaged" in line for line in lines)
    step, state = saved[-1].step if saved else 0, _state(saved, training=training, is_mean=is_mean, origin=origin)
    if owner(run) is not None:
        step, state = max((line["step"] for line in lines), default=0), "running"
    changed = metrics if metrics.exists() else origin
    return Row(
        str(run),
        _described(sides),
        _pairs(run),
        step,
        _count(training, "steps", origin=origin),
        metric,
        best.get(metric),
        best.get("step"),
        state,
        time.strftime("%Y-%m-%d %H:%M", time.localtime(changed.stat().st_mtime)),
    )


def _count(values: dict[str, Any], key: str, *, origin: Path) -> int | None:
    """A whole number as a config or a checkpoint has it, in any form that training takes too; None where none is."""
    match values.get(key):
        case None:
            return None
        case int(number):
            return int(number)
        case float(number) if number.is_integer():
            return int(number)
        case str(number) if number.isdecimal():
            return int(number)
    raise FolderError(f"{origin}: {key} is {values[key]!r}, and no whole number")


def _described(sides: Sequence[dict[str, Any]]) -> str:
    """The kinds of encoder and decoder with their layers and widths, once where they are the same."""
    told = []
    for side in sides:
        sizes = "×".join(str(side[key]) for key in ("layers", "width") if key in side)
        told.append(f"{side.get('kind', '?')} {sizes}".strip() if side.get("kind") != "none" else "none")
    return " → ".join(dict.fromkeys(told))


def _pairs(run: Path) -> int | None:
    """How many pairs it learns from, as its log says."""
    log = run / "log.txt"
    if not log.exists():
        return None
    with log.open(encoding="utf-8", errors="replace") as lines:
        told = next((line.split(" data: ", 1)[1] for line in lines if " data: " in line), "")
    number = told.split(" pairs", 1)[0].replace(",", "")
    return int(number) if number.isdecimal() else None


def _saved(run: Path) -> list[Saved]:
    """What the checkpoints say of themselves, oldest first."""
    found = []
    for path in (run / "checkpoints").glob("step-*/state.json"):
        with suppress(OSError, ValueError, RecursionError):
            state = json.loads(path.read_bytes())
            if isinstance(state, dict) and path.parent.name == f"step-{state.get('step')}":
                found.append(_told(state, origin=path))
    return sorted(found)


def _told(state: dict[str, Any], *, origin: Path) -> Saved:
    step, since_best, best = state["step"], _count(state, "since_best", origin=origin), state.get("best_steps", [])
    if not isinstance(step, int):
        raise FolderError(f"{origin}: step is {step!r}, and no whole number")
    if not isinstance(best, list):
        raise FolderError(f"{origin}: best_steps is {best!r}, and no list")
    return Saved(step, since_best or 0, len(best))


def _state(saved: Sequence[Saved], *, training: dict[str, Any], is_mean: bool, origin: Path) -> str:
    """What `--resume` would find: a run is over once its last step is saved, and the mean that it ends with is made."""
    patience, average, steps = (_count(training, key, origin=origin) for key in ("patience", "average", "steps"))
    if not saved:
        return "stopped"
    last = saved[-1]
    is_early = 0 < (patience or 0) <= last.since_best
    among = last.best_steps if training.get("average_of") == "best" else len(saved)
    waits_for_mean = min(average or 0, among) > 1 and not is_mean
    if waits_for_mean or not (is_early or last.step >= (math.inf if steps is None else steps)):
        return "stopped"
    return "done, stopped early" if is_early else "done"
