"""Run folders: where they are made, what is written about them, and how files in them are replaced.

Without torch, so that `calque runs` lists them at once.
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
from calque.errors import ConfigError, DataError, FolderError
from calque.folders import MANIFEST, sync
from calque.folders.upgrades import EARLIER_METRICS, upgrade_fingerprint
from calque.tasks.metric import Metric

CONFIG, RECORD, STORE = "config.toml", "run.json", "store"
FORMAT = 1
INTERVAL = "checkpoint_every"


def new_run_folder(folder: Path | None) -> Path:
    """A fresh folder for a run: the given one, or the next number in runs/.

    The given one may hold what was prepared for a config that turned out wrong, and nothing else.
    """
    if folder is None:
        return _next_run(Path("runs"))
    if (folder / CONFIG).exists():
        raise FolderError(f"{folder}: there is a run already; go on with --resume {folder}, or choose another folder")
    passed = {f"{CONFIG}.tmp"}  # a kill before the config was there leaves its beginning
    if (folder / STORE / MANIFEST).exists():
        passed.add(STORE)
    left = [path for path in folder.iterdir() if path.name not in passed] if folder.is_dir() else []
    if folder.exists() and (not folder.is_dir() or left):
        raise FolderError(f"{folder}: not an empty folder; a run needs one of its own")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _next_run(runs: Path) -> Path:
    """A new folder with the next number; of two who ask at once each gets its own."""
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
    """Writes what the run is made with when it begins; when it goes on, says what differs since then.

    Other data is refused; `files` says where the corpora are.
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
        raise DataError(f"{folder}: the data is not what this run was begun with:\n{listed}")
    then, today = dict(_flat(before)), dict(_flat({key: now[key] for key in now if key in before}))
    return [
        f"note: {key} was {then.get(key)!r} when the run began and is {today.get(key)!r} now; results may differ"
        for key in then  # a setting that is new since then has its default
        if then.get(key) != today.get(key) and key != INTERVAL
    ]


def section(config: dict[str, Any], name: str, *, origin: Path | str = CONFIG) -> dict[str, Any]:
    """A section of a config that nothing has checked, such as "model.encoder"; an empty one where there is none."""
    values, so_far = config, ""
    for key in name.split("."):
        values, so_far = values.get(key, {}), f"{so_far}.{key}".lstrip(".")
        if not isinstance(values, dict):
            raise ConfigError(f"{origin}: {so_far}: expected a section, not {values!r}")
    return values


def selection_metric(run: Path) -> tuple[str, Metric]:
    """The metric by which a run selects models, and what is better by it."""
    config, origin = read_toml(run / CONFIG), run / CONFIG
    name = section(config, "training", origin=origin).get("metric", "bleu")
    if section(config, "model.encoder", origin=origin).get("kind") == "none":
        name = "loss"  # a language model of an earlier version
    if not isinstance(name, str):
        raise ConfigError(f"{origin}: training.metric: expected a name, not {name!r}")
    recorded = (_read_record(run) or {}).get("metrics")
    known = recorded if isinstance(recorded, dict) else EARLIER_METRICS
    match known.get(name):
        case ["higher" | "lower" as better, int() | float() as chance]:
            return name, Metric(better, chance)
        case _:
            return name, Metric("higher")


def saved_every(folder: Path) -> int | None:
    """The steps between two checkpoints when the run was last trained, if that was written down."""
    every = (_read_record(folder) or {}).get(INTERVAL)
    return every if isinstance(every, int) and every > 0 else None


def note_interval(folder: Path, *, every: int) -> None:
    """Writes down how many steps lie between two checkpoints from now on, where there is a record of the run."""
    values = _read_record(folder)
    if values is not None and values.get(INTERVAL) != every:
        write_atomically(folder / RECORD, json.dumps({**values, INTERVAL: every}, indent=1) + "\n")


def _read_record(folder: Path) -> dict[str, Any] | None:
    """What a run was begun with; None where it has not begun."""
    path = folder / RECORD
    if not os.path.lexists(path):
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise FolderError(f"{path}: not a JSON object in a file; it records what the run was begun with")
    return values


def _flat(values: Mapping[str, Any], *, above: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its key, those within others as `above.key`."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, above=f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def write_atomically(path: Path, text: str) -> None:
    """Replaces a file by a new one that is whole, or leaves it."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
