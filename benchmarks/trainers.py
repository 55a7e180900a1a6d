"""Contenders of `python -m benchmarks.train`: anything that trains a given model for a given number of steps."""

import json
import shutil
from pathlib import Path
from typing import NamedTuple, Protocol

from benchmarks.corpora import write_validation
from benchmarks.errors import ContenderError
from benchmarks.figures import Measured
from benchmarks.processes import Usage
from benchmarks.source_trees import SourceTree
from benchmarks.works import Work

MODEL_CONFIG = "model.toml"  # beside the store, after a run: the model that was trained


class TrainingRun(NamedTuple):
    """One training process, from start to end."""

    steps: int
    tokens: int  # target tokens trained on
    padding: float | None  # share of all positions, where the contender tells it
    store: int  # bytes of the prepared data on disk
    usage: Usage

    def measured(self) -> Measured:
        """The target tokens that the run trained on, and its cost."""
        return Measured(self.tokens, self.usage)


class Trainer(Protocol):
    """A contender that trains. Every call starts a new process, so that its whole cost is measured."""

    @property
    def name(self) -> str: ...

    def prepare(self, work: Work, *, folder: Path) -> None:
        """Prepares what all runs share and warms up caches; not measured."""

    def train(self, work: Work, *, steps: int, folder: Path) -> TrainingRun:
        """Trains for this many steps.   Law: a longer run begins with the batches of a shorter one."""


class CalqueTrainer(NamedTuple):
    """`calque train` of one source tree."""

    tree: SourceTree
    tokens: int | None = None  # training.batch.tokens, where it is not the work's

    @property
    def name(self) -> str:
        return self.tree.name

    def prepare(self, work: Work, *, folder: Path) -> None:
        """Prepares the store and trains for one step."""
        self.train(work, steps=1, folder=folder)

    def train(self, work: Work, *, steps: int, folder: Path) -> TrainingRun:
        """Trains, validates once and saves once, at the end, so that this costs the same after any number of steps."""
        run, store = folder / "run", folder / "store"
        ends = [f"training.{key}={steps}" for key in ("steps", "validate_every", "checkpoint_every", "log_every")]
        usage = self.tree.calque(
            *("train", *work.model_options(), *work.corpus_options(), "--run", run, f"data.store={store}"),
            *self._validation(work, folder=folder),
            *ends,
            *(f"training.threads={work.threads}", "training.device=cpu", "training.samples=0", "seed=1"),
            *(f"training.batch.tokens={self.tokens or work.tokens}", f"text.vocabulary_size={work.vocabulary}"),
            *work.settings,
            folder=folder,
            threads=work.threads,
        )
        tokens, padding = read_metrics(run / "metrics.jsonl")
        config = run / "model" / "config.toml"
        if config.exists():
            shutil.copyfile(config, folder / MODEL_CONFIG)
        size = folder_bytes(store if store.exists() else run / "store")
        shutil.rmtree(run)
        return TrainingRun(steps, tokens, padding, size, usage)

    def _validation(self, work: Work, *, folder: Path) -> tuple[str | Path, ...]:
        """Validation options: language models compute only a loss; other models also translate, one piece per line."""
        if work.is_language_model:
            return ()
        source, target = write_validation(work.corpus, folder=folder)
        return ("--valid-source", source, "--valid-target", target, "search.maximum=1")


def read_metrics(path: Path) -> tuple[int, float]:
    """Target tokens and the share of padding, from the lines of a run's metrics.jsonl whose kind is train."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    train = [line for line in lines if line.get("kind") == "train" and "tokens" in line]
    tokens = sum(line["tokens"] for line in train)
    if not tokens:
        raise ContenderError(f"{path}: no line of kind train counts tokens")
    return tokens, sum(line.get("padding", 0.0) * line["tokens"] for line in train) / tokens


def folder_bytes(folder: Path) -> int:
    """The total size of all files in a folder and its subfolders."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
