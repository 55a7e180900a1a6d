"""What the line is made of: its runs, and the commands that train and score them."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from corpus import Corpus
from entries import Entry
from score import RESULT

from calque.config import check
from calque.experiment import Experiment, experiment_values

HERE = Path(__file__).resolve().parent
CONFIG = HERE / "lineage.toml"

Order = Literal["seed", "cost"]


class Plan(NamedTuple):
    """What was asked for."""

    corpus: Corpus
    out: Path
    factor: float
    device: str
    assignments: Sequence[str]
    keeps_checkpoints: bool = False

    @property
    def store(self) -> Path:
        """The prepared corpus that all runs share."""
        return self.out / "store"


class Run(NamedTuple):
    """One entry with one seed."""

    entry: Entry
    seed: int
    out: Path

    @property
    def label(self) -> str:
        return f"{self.entry.name}-{self.seed}"

    @property
    def folder(self) -> Path:
        return self.out / self.label

    @property
    def is_finished(self) -> bool:
        return (self.folder / RESULT).is_file()


def runs_of(entries: Sequence[Entry], *, seeds: Sequence[int], out: Path, order: Order = "seed") -> list[Run]:
    """By seed the first whole table is there early; by cost the slowest start first, and none is waited for alone."""
    runs = [Run(entry, seed, out) for seed in seeds for entry in entries]
    return runs if order == "seed" else sorted(runs, key=lambda run: -run.entry.cost)


def train_command(run: Run, plan: Plan) -> list[str]:
    """How a run begins, or goes on where it was."""
    if (run.folder / "config.toml").is_file():
        return [sys.executable, "-m", "calque", "train", "--resume", str(run.folder)]
    source, target = plan.corpus
    return [
        *(sys.executable, "-m", "calque", "train", "--config", str(CONFIG), "--run", str(run.folder)),
        *("--system", run.entry.system, "--scale", repr(run.entry.scale * plan.factor)),
        *("--source", str(source.train), "--target", str(target.train)),
        *("--valid-source", str(source.valid), "--valid-target", str(target.valid)),
        *(f"seed={run.seed}", f"data.store={plan.store}", f"training.device={plan.device}"),
        *run.entry.assignments,
        *plan.assignments,
    ]


def score_command(run: Run, plan: Plan) -> list[str]:
    """How a trained run gets its result.json."""
    source, target = plan.corpus
    return [
        *(sys.executable, str(HERE / "score.py"), str(run.folder)),
        *("--name", run.entry.name, "--seed", str(run.seed)),
        *("--source", str(source.test), "--reference", str(target.test)),
        *("--languages", source.language, target.language, "--device", plan.device),
    ]


def experiment_of(entry: Entry, plan: Plan) -> Experiment:
    """What a run of an entry will be; a ConfigError where the settings do not fit it."""
    source, target = plan.corpus
    corpora = {
        role: [{"kind": "files", "source": str(getattr(source, role)), "target": str(getattr(target, role))}]
        for role in ("train", "valid")
    }
    values = experiment_values(
        config=CONFIG,
        system=entry.system,
        corpora=corpora,
        assignments=[*entry.assignments, *plan.assignments],
        scale=entry.scale * plan.factor,
    )
    return check(Experiment, values, origin=entry.name)


def refuse_other_settings(path: Path, settings: dict[str, Any]) -> None:
    """Raises a ValueError where the runs of a folder were begun with something else."""
    before = json.loads(path.read_bytes()) if path.exists() else settings
    changed = [
        f"{key} was {before.get(key)!r}, now {value!r}" for key, value in settings.items() if before.get(key) != value
    ]
    if changed:
        raise ValueError(f"{path.parent} was begun with other settings: {'; '.join(changed)}; choose another folder")
