"""The parts of a training run, and the summary of how it ended."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torch import nn

from calque.data.store import Store
from calque.tasks.interfaces import Judge, Judgement, Selection, Task
from calque.training.distributed import Ranks
from calque.training.observers import TrainingObserver
from calque.training.reporting import Reporter
from calque.training.settings import TrainingConfig

SaveModel = Callable[[Path, nn.Module, Judgement], None]
"""Writes a validated model as a folder, completely or not at all."""


class Job(NamedTuple):
    """The parts of a training run."""

    config: TrainingConfig
    seed: int
    task: Task
    model: nn.Module
    store: Store
    judge: Judge
    save_model: SaveModel
    folder: Path
    reporter: Reporter
    ranks: Ranks = Ranks()
    observer: TrainingObserver | None = None

    @property
    def metric(self) -> str:
        """The metric that selects models."""
        return self.judge.selects if self.config.metric == "auto" else self.config.metric

    @property
    def selection(self) -> Selection:
        """The rule that selects models."""
        metrics, chosen = self.judge.metrics, self.config.tie_breaker
        return Selection(self.metric, metrics[self.metric].tie_breaker if chosen == "auto" else chosen, metrics)


class Summary(NamedTuple):
    """How a run ended."""

    step: int
    best_step: int
    best: Judgement | None  # None if the best validation was before the run was resumed
    best_value: float  # of the metric that selects models
    stopped_early: bool
    skipped: int  # updates that were not finite
    seconds: float  # since it was started or resumed
