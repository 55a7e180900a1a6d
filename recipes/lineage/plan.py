"""The runs of the recipe, and the commands that train and score them."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from calque.config import check
from calque.data.prepare import prepare
from calque.experiment import Experiment, assembly_of, experiment_values
from recipes.lineage.corpus import Corpus
from recipes.lineage.entries import Entry
from recipes.runner import scheduler
from recipes.runner.files import read_json
from recipes.runner.scheduler import Job, Stage
from recipes.runner.variants import RESULT

CONFIG = Path(__file__).resolve().parent / "lineage.toml"
TRAINED = "trained"  # a file in a run's folder: training is complete

Order = Literal["seed", "cost"]


class Plan(NamedTuple):
    """A corpus, a folder for all runs, and the settings they share."""

    corpus: Corpus
    out: Path
    factor: float
    device: str
    assignments: Sequence[str]
    keeps_checkpoints: bool = False
    compares_rates: bool = False  # by validation alone; the test set is not translated

    @property
    def store(self) -> Path:
        """The folder of the prepared corpus that all runs share."""
        return self.out / "store"


class Run(NamedTuple):
    """A run: an entry of the table with a seed."""

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
    """The runs, by seed, which completes a first table early, or by cost, slowest first, which finishes earliest."""
    runs = [Run(entry, seed, out) for seed in seeds for entry in entries]
    return runs if order == "seed" else sorted(runs, key=lambda run: -run.entry.cost)


def job_of(run: Run, plan: Plan) -> Job:
    """The job that trains a run, scores it, and removes its checkpoints."""

    def summary() -> str:
        result = read_json(run.folder / RESULT)
        return f"BLEU {result['bleu_lowercased']:.2f}, trained in {result['training_seconds']:.0f} s"

    def clean_up() -> None:
        if not plan.keeps_checkpoints:
            shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)

    training = Stage("training", lambda: train_command(run, plan), run.folder / TRAINED)
    if plan.compares_rates:
        return Job(run.label, run.folder, (training,), cost=run.entry.cost, clean_up=clean_up)
    stages = (training, Stage("scoring", lambda: score_command(run, plan), run.folder / RESULT))
    return Job(run.label, run.folder, stages, cost=run.entry.cost, summary=summary, clean_up=clean_up)


def train_command(run: Run, plan: Plan) -> list[str]:
    """The command that starts or resumes a run."""
    source, target = plan.corpus
    arguments = [
        *("--config", str(CONFIG), "--system", run.entry.system, "--scale", repr(run.entry.scale * plan.factor)),
        *("--source", str(source.train), "--target", str(target.train)),
        *("--valid-source", str(source.valid), "--valid-target", str(target.valid)),
        *(f"seed={run.seed}", f"data.store={plan.store}", f"training.device={plan.device}"),
        *run.entry.assignments,
        *plan.assignments,
    ]
    return scheduler.train_command(run.folder, arguments)


def score_command(run: Run, plan: Plan) -> list[str]:
    """The command that writes the result.json of a trained run."""
    source, target = plan.corpus
    return [
        *(sys.executable, "-m", "recipes.lineage.score", str(run.folder)),
        *("--name", run.entry.name, "--seed", str(run.seed)),
        *("--source", str(source.test), "--reference", str(target.test)),
        *("--languages", source.language, target.language, "--device", plan.device),
    ]


def experiment_of(entry: Entry, plan: Plan) -> Experiment:
    """The experiment of an entry; raises a ConfigError if the settings do not fit it."""
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


def prepare_store(experiment: Experiment, plan: Plan) -> None:
    """Prepares the corpus once, before several processes need it at the same time."""
    prepare(experiment.data, preparation=assembly_of(experiment).preparation, folder=plan.store)
