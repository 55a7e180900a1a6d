"""Run folders: creating them, run.json, and replacing files atomically.

This module does not import torch, so that `calque runs` starts fast.
"""

import json
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from calque import __version__
from calque.config import read_toml
from calque.data.fingerprint import differences
from calque.errors import ConfigError, DataError, FolderError, shell_path
from calque.folders import MANIFEST, sync
from calque.folders.upgrades import EARLIER_METRIC, EARLIER_METRICS, upgrade_fingerprint
from calque.parsing import parse_json
from calque.tasks.metric import Metric, Selection
from calque.training.lock import run_lock

CONFIG, RECORD, STORE = "config.toml", "run.json", "store"
FORMAT = 1
INTERVAL = "checkpoint_every"
NOTES = "notes"
ESTIMATED = "estimated"  # in run.json: the model is estimated in one step, without checkpoints


def new_run_folder(folder: Path | None) -> Path:
    """A new folder for a run: `folder`, or the next number in runs/.

    `folder` must be empty, except for data that was prepared for a run whose config was then rejected.
    """
    if folder is None:
        return _next_run(Path("runs"))
    if (folder / CONFIG).exists():
        raise FolderError(
            f"{folder}: already holds a run; continue it with --resume {shell_path(folder)}, or choose another folder"
        )
    allowed = {f"{CONFIG}.tmp"}  # left by a process that was killed while writing the config
    if (folder / STORE / MANIFEST).exists():
        allowed.add(STORE)
    is_occupied = folder.exists() and (
        not folder.is_dir() or any(path.name not in allowed for path in folder.iterdir())
    )
    if is_occupied:
        raise FolderError(f"{folder}: not empty; every run needs an empty folder of its own")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_config(folder: Path, config: str) -> None:
    """Writes the config of a new run; raises a FolderError if another process has started a run in the same folder."""
    with run_lock(folder):
        if (folder / CONFIG).exists():
            raise FolderError(f"{folder}: another process has just started a run here; choose another folder")
        write_atomically(folder / CONFIG, config)


def _next_run(runs: Path) -> Path:
    """Creates and returns the folder in `runs` with the next number. Concurrent calls get different folders."""
    runs.mkdir(exist_ok=True)
    number = max((int(path.name) for path in runs.iterdir() if path.name.isdecimal()), default=0) + 1
    while True:
        folder = runs / str(number)
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder


def record(folder: Path, facts: dict[str, Any], *, files: Mapping[str, Path]) -> list[str]:
    """Writes run.json when a run starts. When it is resumed, returns a note for each value that has changed since.

    A note that was returned when the run was last resumed is not repeated. Raises a DataError if the data has changed;
    its message names the corpora by their paths in `files`.
    """
    now = {
        "format": FORMAT,
        "calque": __version__,
        "python": platform.python_version(),
        **facts,
    }
    before = _read_record(folder)
    if before is None:
        write_atomically(folder / RECORD, json.dumps(now, indent=1) + "\n")
        return []
    data = before.get("data")
    if changes := differences(
        upgrade_fingerprint(data) if isinstance(data, dict) else {}, now=now["data"], files=files
    ):
        listed = "\n".join(f"  {change}" for change in changes)
        raise DataError(f"{folder}: the data has changed since this run was started:\n{listed}")
    then, today = dict(_flat(before)), dict(_flat({key: now[key] for key in now if key in before}))
    notes = [
        f"note: {key} was {value!r} when the run was started and is {today.get(key)!r} now; results may differ"
        for key, value in then.items()  # settings that are newer than the run have their defaults
        if value != today.get(key) and key not in (INTERVAL, NOTES)
    ]
    reported = before.get(NOTES)
    reported = reported if isinstance(reported, list) else []
    if notes != reported:
        write_atomically(folder / RECORD, json.dumps({**before, NOTES: notes}, indent=1) + "\n")
    return [note for note in notes if note not in reported]


def section(config: dict[str, Any], name: str, *, origin: Path | str = CONFIG) -> dict[str, Any]:
    """A section, such as "model.encoder", of a config that has not been validated; empty if it is missing."""
    values, path = config, ""
    for key in name.split("."):
        values, path = values.get(key, {}), f"{path}.{key}".lstrip(".")
        if not isinstance(values, dict):
            raise ConfigError(f"{origin}: {path}: expected a section, not {values!r}")
    return values


def selection_of(run: Path) -> Selection:
    """The metric and the tie-breaker by which a run selects models, as its folder records them."""
    config, origin = read_toml(run / CONFIG), run / CONFIG
    training = section(config, "training", origin=origin)
    names = {"metric": training.get("metric", EARLIER_METRIC), "tie_breaker": training.get("tie_breaker", "loss")}
    for key, name in names.items():
        if not isinstance(name, str):
            raise ConfigError(f"{origin}: training.{key}: expected a name, not {name!r}")
    recorded = (_read_record(run) or {}).get("metrics")
    known = recorded if isinstance(recorded, dict) else EARLIER_METRICS
    metrics = {name: _recorded_metric(known[name]) for name in known}
    return Selection(names["metric"], names["tie_breaker"], metrics)


def _recorded_metric(values: object) -> Metric:
    match values:
        case ["higher" | "lower" as better, int() | float() as chance]:
            return Metric(better, chance)
        case _:
            return Metric("higher")


def is_estimated(folder: Path) -> bool:
    """Whether the model of a run is estimated from counts instead of trained step by step."""
    return (_read_record(folder) or {}).get(ESTIMATED) is True


def checkpoint_interval(folder: Path) -> int | None:
    """The number of steps between two checkpoints when the run was last trained, if it is recorded."""
    every = (_read_record(folder) or {}).get(INTERVAL)
    return every if isinstance(every, int) and every > 0 else None


def record_checkpoint_interval(folder: Path, *, every: int) -> None:
    """Records the number of steps between two checkpoints in run.json, if there is one."""
    values = _read_record(folder)
    if values is not None and values.get(INTERVAL) != every:
        write_atomically(folder / RECORD, json.dumps({**values, INTERVAL: every}, indent=1) + "\n")


def _read_record(folder: Path) -> dict[str, Any] | None:
    """The contents of run.json; None if the run has not started."""
    path = folder / RECORD
    if not os.path.lexists(path):
        return None
    try:
        values = parse_json(path.read_text(encoding="utf-8")) if path.is_file() else None
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise FolderError(
            f"{path}: expected a JSON object with the settings that the run was started with; was the file changed?"
        )
    return values


def _flat(values: Mapping[str, Any], *, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields every value with its key. Nested keys are joined by dots."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, prefix=f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def write_atomically(path: Path, text: str) -> None:
    """Replaces a file with a complete new one, or, if that fails, leaves it unchanged."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
