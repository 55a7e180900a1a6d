"""The parts of a training run, and the summary of how it ended."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from calque.data.store import Store
from calque.tasks.interfaces import Judge, Judgement, Selection, Task
from calque.training.distributed import Ranks
from calque.training.observers import TrainingObserver
from calque.training.reporting import Reporter
from calque.training.settings import TrainingConfig

SaveModel = Callable[[Path, nn.Module, Judgement], None]
"""A function that writes a validated model as a folder, completely or not at all."""


GradientFlow = Callable[[nn.Module], Mapping[str, Any]]
"""A function from a model in evaluation mode to a line of gradients.jsonl; it must not change the model."""


class Job(NamedTuple):
    """Everything the training loop needs for a run: settings, seed, task, model, data, judge, folder and ranks."""

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
    gradient_flow: GradientFlow | None = None  # called at every N-th validation, with training.watch_gradients = N

    @property
    def metric(self) -> str:
        """The metric that selects models."""
        return self.judge.selects if self.config.metric == "auto" else self.config.metric

    @property
    def selection(self) -> Selection:
        """The rule that selects the best model: a metric, and a tie-breaker."""
        metrics, chosen = self.judge.metrics, self.config.tie_breaker
        return Selection(self.metric, metrics[self.metric].tie_breaker if chosen == "auto" else chosen, metrics)


class Summary(NamedTuple):
    """The result of a training run: its last step, its best validation, and whether it stopped early."""

    step: int
    best_step: int
    best: Judgement | None  # None if the best validation was before the run was resumed
    best_value: float  # of the metric that selects models
    stopped_early: bool
    skipped: int  # updates whose loss or gradient was not finite
    seconds: float  # since the run was started or last resumed
