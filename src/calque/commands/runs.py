"""The command `calque runs`, which lists training runs."""

import math
import os
import re
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
from calque.parsing import parse_json


class Row(NamedTuple):
    """The row of a run in the table, with None for unknown values."""

    run: str
    model: str = ""
    pairs: int | None = None  # or lines or sentences: the name is part of the format that programs read
    step: int | None = None
    steps: int | None = None
    metric: str = ""
    best: float | None = None
    at_step: int | None = None
    state: str = ""
    changed: str = ""

    def plain(self) -> list[str]:
        """The fields as they are written to a pipe; numbers have no exponents, which `sort -n` cannot read."""
        return ["" if value is None else one_field(_format_value(value)) for value in self]

    def formatted(self) -> dict[str, str]:
        """The fields as shown on a terminal, by column; some also in an abbreviated form for narrow terminals."""
        step, steps, rows, at_step = (
            "" if count is None else f"{count:,}" for count in (self.step, self.steps, self.pairs, self.at_step)
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
            "rows": rows,
        }


COLUMNS = ("run", "state", "steps", "best", "changed", "model", "best at", "rows")  # the most important first
BRIEFLY = {"changed": "day", "steps": "step", "run": "name"}  # columns are shortened in this order
DATA = re.compile(r" data: (?P<rows>[0-9,]+) \w+ to train on")
DAMAGED, GAP = "damaged", "  "
DIGITS = 4  # decimals of a score when piped: losses differ little
DEPTH = 4  # of subfolders that are searched for runs
TRACES = {
    "lock",
    "log.txt",
    "metrics.jsonl",
    "run.json",
    "store",
    "checkpoints",
}  # other programs have a config.toml too
NEEDED = 5  # columns that are shortened before they are left out


class CheckpointState(NamedTuple):
    """The progress that a checkpoint records."""

    step: int
    since_best: int
    best_steps: int


def runs(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FOLDER]...", help="Runs, or folders that contain runs; runs/ by default."),
    ] = None,
) -> None:
    """List training runs with their best validation scores: as a table on a terminal, tab-separated when piped.

    Runs in subfolders are listed too, down to the fourth level. If a run is not being trained, its steps are those of
    its last checkpoint; `calque train --resume RUN` resumes a stopped run. A model is described by its kind, layers and
    width. The column "pairs" ("rows" on a terminal) contains the number of training pairs, lines or sentences. On a
    narrow terminal, fewer columns are shown.

    Examples:

        calque runs

        calque runs runs/first experiments/ | sort -t$'\\t' -k7,7rn
    """
    paths = [run for folder in folders or [Path("runs")] for run in runs_in(folder)]
    if not paths:
        where = ", ".join(map(str, folders)) if folders else "runs"
        raise FolderError(f"{where}: found no run here; `calque train` creates one")
    rows = [_row(run) for run in paths]
    if not sys.stdout.isatty():
        for fields in (Row._fields, *(row.plain() for row in rows)):
            typer.echo("\t".join(fields))
        return
    damaged = [one_field(row.state) for row in rows if row.state.startswith(DAMAGED)]
    for line in [*table(rows, width=shutil.get_terminal_size().columns), *damaged]:
        typer.echo(line)


def table(rows: Sequence[Row], *, width: int) -> list[str]:
    """A header and one line per run, with as many columns as fit into the width, but at least run and state."""
    formatted = [row.formatted() for row in rows]
    are_names_unique = len({row["name"] for row in formatted}) == len(formatted)
    for columns in _column_choices(are_names_unique=are_names_unique):
        fields = [[header, *(one_field(row[key]) for row in formatted)] for key, header in columns.items()]
        widths = [max(map(cell_len, column)) for column in fields]
        if sum(widths) + len(GAP) * (len(widths) - 1) <= width:
            break
    padded = ([set_cell_size(cell, size) for cell in column] for column, size in zip(fields, widths, strict=True))
    return [GAP.join(line).rstrip() for line in zip(*padded, strict=True)]


def _column_choices(*, are_names_unique: bool) -> Iterator[dict[str, str]]:
    """Yields ever narrower sets of table columns, as headers by key; run paths become names if these are unique."""
    for count in range(len(COLUMNS), NEEDED, -1):
        yield {name: name for name in COLUMNS[:count]}
    columns = {name: name for name in COLUMNS[:NEEDED]}
    yield columns
    for name, brief in BRIEFLY.items():
        if brief != "name" or are_names_unique:
            columns = {brief if key == name else key: header for key, header in columns.items()}
            yield columns
    for count in range(NEEDED - 1, 1, -1):
        yield dict(list(columns.items())[:count])


def runs_in(folder: Path) -> list[Path]:
    """The folder itself if it is a run, else the runs in it and its subfolders, by name (numeric names by value)."""
    if not folder.is_dir():
        raise FolderError(f"{folder} is a file, not a folder" if folder.exists() else f"{folder}: no such folder")
    paths = [Path(path) for path in _runs_below(os.fspath(folder), depth=DEPTH)]
    return sorted(paths, key=lambda path: [(int(name) if name.isdecimal() else math.inf, name) for name in path.parts])


def _runs_below(folder: str, *, depth: int) -> Iterator[str]:
    """Yields the runs in a folder, at most `depth` levels down; every folder is read once.

    The search does not descend into runs, models, prepared data, hidden folders, or folders without read permission. A
    link to a run is listed, but no other link is followed, so that links cannot form a loop.
    """
    try:
        with os.scandir(folder) as entries:
            inside = list(entries)
    except PermissionError:
        if depth == DEPTH:
            raise
        return
    names = {entry.name for entry in inside}
    if "manifest.json" in names:
        return
    if "config.toml" in names and (depth >= DEPTH - 1 or names & TRACES):
        yield folder
        return
    for entry in inside:
        if depth and _is_searched(entry):
            yield from _runs_below(entry.path, depth=depth - 1)


def _is_searched(entry: os.DirEntry[str]) -> bool:
    """Whether to search an entry for runs: it must be a folder, not be hidden and, if it is a link, point to a run."""
    try:
        is_folder = not entry.name.startswith(".") and entry.is_dir()
        return is_folder and (not entry.is_symlink() or (Path(entry) / "config.toml").is_file())
    except OSError:  # a link to itself
        return False


def _format_value(value: str | float) -> str:
    return f"{value:.{DIGITS}f}" if isinstance(value, float) else f"{value}"


def _row(run: Path) -> Row:
    """The table row that describes a run; for a damaged run, its column `state` describes the problem."""
    try:
        return _read(run)
    except UserError as error:
        problem = str(error).splitlines()[0]
    except OSError as error:
        problem = f"{error.filename or run}: cannot be read: {error.strerror}"
    return Row(str(run), state=f"{DAMAGED}: {problem}")


def _read(run: Path) -> Row:
    from calque.config import read_toml
    from calque.training.journal import read_journal
    from calque.training.lock import owner
    from calque.training.runs import is_estimated, section, selection_of

    metrics, origin = run / "metrics.jsonl", run / "config.toml"
    config: dict[str, Any] = read_toml(origin)
    lines = read_journal(metrics, counts=("step",))
    training = section(config, "training", origin=origin)
    metric = selection_of(run).metric
    best: dict[str, Any] = next((line for line in reversed(lines) if line.get("best")), {})
    if not isinstance(best.get(metric), float | int | None):
        raise FolderError(f"{metrics}: {metric} of step {best['step']} is {best[metric]!r}, not a number")
    checkpoints = _checkpoints(run)
    is_averaged = any("averaged" in line for line in lines)
    step = checkpoints[-1].step if checkpoints else 0
    state = _state(checkpoints, training=training, is_averaged=is_averaged, origin=origin)
    if is_estimated(run) and best:
        step, state = best["step"], "done"
    if owner(run) is not None:
        step, state = max((line["step"] for line in lines), default=0), "running"
    changed = max((path for path in (origin, metrics, run / "log.txt") if path.exists()), key=_changed_at)
    return Row(
        str(run),
        _describe_model(config, origin=origin),
        _rows(run),
        step,
        _count(training, "steps", origin=origin),
        metric,
        best.get(metric),
        best.get("step"),
        state,
        time.strftime("%Y-%m-%d %H:%M", time.localtime(_changed_at(changed))),
    )


def _changed_at(path: Path) -> float:
    return path.stat().st_mtime


def _count(values: dict[str, Any], key: str, *, origin: Path) -> int | None:
    """The integer at `key` of a config or checkpoint, in any notation that training accepts; None if it is missing."""
    match values.get(key):
        case None:
            return None
        case int(number):
            return int(number)
        case float(number) if number.is_integer():
            return int(number)
        case str(number) if number.isdecimal():
            return int(number)
    raise FolderError(f"{origin}: {key} is {values[key]!r}, not an integer")


def _describe_model(config: dict[str, Any], *, origin: Path) -> str:
    """Describes a model's encoder and decoder by kind, layers and width; equal descriptions are given only once."""
    from calque.training.runs import section

    if section(config, "task", origin=origin).get("kind") == "own":
        return "own task"
    model = section(config, "model", origin=origin)
    if model.get("kind") == "hidden-markov":
        return f"hidden-markov {model.get('order', '?')}"
    own_parts = {"language-model": ["network"], "tagger": ["encoder"], "recommender": ["network"]}
    own_parts |= {"captioner": ["image", "decoder"]}
    names = own_parts.get(str(model.get("kind")), ["encoder", "decoder"])
    if model.get("kind") == "recogniser" and model.get("head") == "ctc":
        names = ["encoder"]
    parts = [_describe_part(section(config, f"model.{name}", origin=origin)) for name in names]
    head = [str(model["head"])] if "head" in model else []  # of a tagger or a recogniser
    return " → ".join(dict.fromkeys([*parts, *head]))


def _describe_part(part: dict[str, Any]) -> str:
    sizes = "×".join(str(part[key]) for key in ("layers", "width") if key in part)
    return f"{part.get('kind', '?')} {sizes}".strip()


def _rows(run: Path) -> int | None:
    """The number of training rows (pairs, lines or sentences), from the log or, for custom tasks, from lengths.json."""
    log = run / "log.txt"
    if not log.exists():
        return None
    with log.open(encoding="utf-8", errors="replace") as lines:
        match = next(filter(None, map(DATA.search, lines)), None)
    if match:
        return int(match["rows"].replace(",", ""))
    with suppress(OSError, ValueError):
        columns = parse_json((run / "lengths.json").read_bytes())
        counts = next(iter(columns.values()), None) if isinstance(columns, dict) else None
        if isinstance(counts, list) and all(isinstance(count, int) for count in counts):
            return sum(counts)
    return None


def _checkpoints(run: Path) -> list[CheckpointState]:
    """The progress recorded in each checkpoint of a run, oldest first."""
    states = []
    for path in (run / "checkpoints").glob("step-*/state.json"):
        with suppress(OSError, ValueError):
            values = parse_json(path.read_bytes())
            if isinstance(values, dict) and path.parent.name == f"step-{values.get('step')}":
                states.append(_checkpoint_state(values, origin=path))
    return sorted(states)


def _checkpoint_state(values: dict[str, Any], *, origin: Path) -> CheckpointState:
    step, since_best, best = values["step"], _count(values, "since_best", origin=origin), values.get("best_steps", [])
    if not isinstance(step, int):
        raise FolderError(f"{origin}: step is {step!r}, not an integer")
    if not isinstance(best, list):
        raise FolderError(f"{origin}: best_steps is {best!r}, not a list")
    return CheckpointState(step, since_best or 0, len(best))


def _state(checkpoints: Sequence[CheckpointState], *, training: dict[str, Any], is_averaged: bool, origin: Path) -> str:
    """A run is "done" or "done, stopped early" if its last step and any averaged model are saved, else "stopped"."""
    patience, average, steps = (_count(training, key, origin=origin) for key in ("patience", "average", "steps"))
    if not checkpoints:
        return "stopped"
    last = checkpoints[-1]
    is_early = 0 < (patience or 0) <= last.since_best
    candidates = last.best_steps if training.get("average_of") == "best" else len(checkpoints)
    lacks_average = min(average or 0, candidates) > 1 and not is_averaged
    if lacks_average or not (is_early or last.step >= (math.inf if steps is None else steps)):
        return "stopped"
    return "done, stopped early" if is_early else "done"
