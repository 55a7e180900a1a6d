"""What the line is made of: its runs, and the commands that train and score them."""

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from corpus import Corpus
from entries import Entry
from score import RESULT

from calque.config import check
from calque.experiment import Experiment, experiment_values

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

import fleet

HERE = Path(__file__).resolve().parent
CONFIG = HERE / "lineage.toml"
TRAINED = "trained"  # a file in a run's folder: there is nothing left to train

Order = Literal["seed", "cost"]


class Plan(NamedTuple):
    """What was asked for."""

    corpus: Corpus
    out: Path
    factor: float
    device: str
    assignments: Sequence[str]
    keeps_checkpoints: bool = False
    looks_for_rates: bool = False  # what validates best is all that is asked; the test set is not looked at

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


def runs_of(entries: Sequence[Entry], *, seeds: Sequence[int], out: Path, order: Order = "seed") -> list[Run]:
    """By seed the first whole table is there early; by cost the slowest start first, and none is waited for alone."""
    runs = [Run(entry, seed, out) for seed in seeds for entry in entries]
    return runs if order == "seed" else sorted(runs, key=lambda run: -run.entry.cost)


def job_of(run: Run, plan: Plan) -> fleet.Job:
    """A run as the fleet does it: trained, then scored; what it needed to go on is removed in the end."""

    def told() -> str:
        found = json.loads((run.folder / RESULT).read_bytes())
        return f"BLEU {found['bleu_lowercased']:.2f}, trained in {found['training_seconds']:.0f} s"

    def afterwards() -> None:
        if not plan.keeps_checkpoints:
            shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)

    trains = fleet.Stage("trains", lambda: train_command(run, plan), run.folder / TRAINED)
    if plan.looks_for_rates:
        return fleet.Job(run.label, run.folder, (trains,), cost=run.entry.cost, afterwards=afterwards)
    stages = (trains, fleet.Stage("is scored", lambda: score_command(run, plan), run.folder / RESULT))
    return fleet.Job(run.label, run.folder, stages, cost=run.entry.cost, told=told, afterwards=afterwards)


def train_command(run: Run, plan: Plan) -> list[str]:
    """How a run begins, or goes on where it was."""
    source, target = plan.corpus
    begin = [
        *("--config", str(CONFIG), "--system", run.entry.system, "--scale", repr(run.entry.scale * plan.factor)),
        *("--source", str(source.train), "--target", str(target.train)),
        *("--valid-source", str(source.valid), "--valid-target", str(target.valid)),
        *(f"seed={run.seed}", f"data.store={plan.store}", f"training.device={plan.device}"),
        *run.entry.assignments,
        *plan.assignments,
    ]
    return fleet.train_command(run.folder, begin)


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
