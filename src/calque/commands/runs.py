"""`calque runs`."""

import json
import math
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from calque.errors import FolderError, UserError

HEAD = ("run", "model", "pairs", "steps", "best", "at step", "state", "changed")


class Row(NamedTuple):
    """What there is to say about a run."""

    run: str
    model: str
    pairs: str
    steps: str
    best: str
    at_step: str
    state: str
    changed: str


def runs(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="[FOLDER]...", help="Runs, or folders of runs; runs/ unless said.")
    ] = None,
) -> None:
    """List training runs with their best validation score: a table on a terminal, tab-separated when piped.

    Examples:

        calque runs

        calque runs runs/first experiments/ | sort -t$'\\t' -k5 -rn
    """
    found = [run for folder in folders or [Path("runs")] for run in _runs_in(folder)]
    if not found:
        where = ", ".join(map(str, folders)) if folders else "runs"
        raise FolderError(f"{where}: no run here; `calque train` makes one")
    rows = [_row(run) for run in found]
    if not sys.stdout.isatty():
        for row in (HEAD, *rows):
            typer.echo("\t".join(row))
        return
    table = Table(*HEAD, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _runs_in(folder: Path) -> list[Path]:
    """The folder itself where it is a run, or the runs in it, by name (numbers as numbers)."""
    if not folder.is_dir():
        raise FolderError(f"{folder}: no such folder")
    if _is_run(folder):
        return [folder]
    inside = [path for path in folder.iterdir() if path.is_dir() and _is_run(path)]
    return sorted(inside, key=lambda path: (int(path.name) if path.name.isdecimal() else math.inf, path.name))


def _is_run(folder: Path) -> bool:
    return (folder / "config.toml").is_file() and not (folder / "manifest.json").exists()


def _row(run: Path) -> Row:
    from calque.config import read_toml

    try:
        config: dict[str, Any] = read_toml(run / "config.toml")
        lines = _lines(run / "metrics.jsonl")
    except UserError as error:
        return Row(str(run), "", "", "", "", "", f"damaged: {str(error).splitlines()[0]}", "")
    training, model = config.get("training", {}), config.get("model", {})
    metric = "loss" if model.get("encoder", {}).get("kind") == "none" else training.get("metric", "bleu")
    step = max((line["step"] for line in lines), default=0)
    best = next((line for line in reversed(lines) if line.get("best")), None)
    metrics = run / "metrics.jsonl"
    changed = metrics if metrics.exists() else run / "config.toml"
    return Row(
        str(run),
        " → ".join(str(model.get(side, {}).get("kind", "?")) for side in ("encoder", "decoder")),
        _pairs(run),
        f"{step:,} of {training['steps']:,}" if "steps" in training else f"{step:,}",
        f"{metric} {best[metric]:.2f}" if best and metric in best else "",
        f"{best['step']:,}" if best else "",
        _state(run, step=step, steps=training.get("steps")),
        time.strftime("%Y-%m-%d %H:%M", time.localtime(changed.stat().st_mtime)),
    )


def _lines(path: Path) -> list[dict[str, Any]]:
    from calque.training.journal import read_journal

    return read_journal(path)


def _pairs(run: Path) -> str:
    """How many pairs it learns from, as its log says."""
    log = run / "log.txt"
    if not log.exists():
        return ""
    with log.open(encoding="utf-8", errors="replace") as lines:
        told = next((line.split("data: ", 1)[1] for line in lines if " data: " in line), "")
    return told.split(" pairs", 1)[0]


def _state(run: Path, *, step: int, steps: int | None) -> str:
    from calque.training.lock import owner

    if owner(run) is not None:
        return "running"
    if steps is not None and step >= steps:
        return "done"
    checkpoints = sorted((run / "checkpoints").glob("step-*/state.json"), key=lambda path: path.stat().st_mtime)
    with suppress(OSError, ValueError):
        if checkpoints and json.loads(checkpoints[-1].read_bytes()).get("stopped_early"):
            return "done, stopped early"
    return "stopped; --resume goes on" if checkpoints else "stopped before its first checkpoint"
