"""The progress of a run: its position, its best validations, early stopping and plateaus."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calque.tasks.interfaces import Metric
from calque.training.settings import TrainingConfig


def rank(value: float, *, loss: float, step: int) -> tuple[float, float, int]:
    """A sort key for validations, best first: the higher value, then the lower loss, then the earlier step."""
    return (-value, loss, step)


@dataclass
class Progress:
    """What a checkpoint holds besides tensors."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # in the epoch, the next one to read
    tokens: float = 0  # that the loss is summed over, since the last line of metrics
    positions: int = 0  # since that line, with padding
    filled: int = 0  # since that line, without padding
    metric: str | None = None  # that values are of; None in older checkpoints
    best_value: float | None = None  # -inf if the value of the best model is unknown
    best_step: int = 0
    loss_at_best: float = math.inf  # breaks ties: BLEU is 0 for a while
    best_loss: float = math.inf
    since_best: int = 0  # validations since the metric or the loss improved, after the warm-up
    drops: int = 0  # of the learning rate, on plateaus
    since_drop: int = 0  # validations on that plateau
    best_steps: list[tuple[float, int]] = field(default_factory=list)  # values and steps of the checkpoints to average
    best_steps_losses: list[float] = field(default_factory=list)  # of these checkpoints; empty in older ones
    losses: list[float] = field(default_factory=list)  # of all validations, if averaging waits for a trigger
    averaged_steps: int = 0  # in the triggered average
    stopped_early: bool = False
    metrics: int = 0  # bytes of metrics.jsonl
    samples: int = 0  # bytes of samples.txt
    parent: int | None = None  # the step of the checkpoint before this one

    def judge(self, value: float, *, loss: float, config: TrainingConfig) -> bool:
        """Records a validation, for which higher values are better; whether it is the best so far."""
        rival = -math.inf if self.best_value is None else self.best_value
        is_best = rank(value, loss=loss, step=self.step) < rank(rival, loss=self.loss_at_best, step=self.best_step)
        is_improving = is_best or loss < self.best_loss or self.step <= config.schedule.warmup
        if is_best:
            self.best_value, self.best_step, self.loss_at_best = value, self.step, loss
        self.since_best = 0 if is_improving else self.since_best + 1
        self.stopped_early = 0 < config.patience <= self.since_best
        self.since_drop = 0 if is_improving else self.since_drop + 1
        if config.schedule.kind == "plateau" and self.since_drop >= config.schedule.patience:
            self.drops, self.since_drop = self.drops + 1, 0
        self.best_loss = min(self.best_loss, loss)
        if config.average > 1 and config.average_of == "best":
            self._record_best_steps(value, loss=loss, count=config.average)
        return is_best

    def triggers_averaging(self, loss: float, *, patience: int) -> bool:
        """Records a loss; whether it is worse than the best one before the last `patience` validations.

        The non-monotonic trigger of Merity et al. 2018, algorithm 1.
        """
        before = self.losses[:-patience]
        self.losses.append(loss)
        return bool(before) and loss > min(before)

    def switch_metric(self, metric: str, *, kind: Metric, validations: Mapping[int, Mapping[str, Any]]) -> str:
        """Selects models by another metric from now on; a message about it.

        The values of the best models are looked up in `validations`, lines of metrics.jsonl by step; a model whose
        line lacks the metric is worse than any other. Patience starts anew.
        """
        self.metric, self.since_best, self.since_drop, self.stopped_early = metric, 0, 0, False
        self.best_steps = [
            (_value(validations.get(step, {}), metric=metric, kind=kind), step) for _, step in self.best_steps
        ]
        if self.best_value is None:
            return f"training.metric is now {metric}"
        line = validations.get(self.best_step, {})
        self.best_value = _value(line, metric=metric, kind=kind)
        message = f"training.metric is now {metric}: the best model (step {self.best_step})"
        if self.best_value == -math.inf:
            return f"{message} was not measured by it, so the next validation will be the best so far"
        return f"{message} has {line[metric]:.3f}"

    def _record_best_steps(self, value: float, *, loss: float, count: int) -> None:
        losses = self.best_steps_losses or [math.inf] * len(self.best_steps)  # unknown losses lose against any other
        best = [rank(value, loss=loss, step=step) for (value, step), loss in zip(self.best_steps, losses, strict=True)]
        best = sorted([*best, rank(value, loss=loss, step=self.step)])[:count]
        self.best_steps = [(-negated, step) for negated, _, step in best]
        self.best_steps_losses = [loss for _, loss, _ in best]


def _value(line: Mapping[str, Any], *, metric: str, kind: Metric) -> float:
    """The worth of a validation by its line of metrics.jsonl; -inf if the metric is missing or NaN."""
    value = kind.worth(float(line.get(metric, math.nan)))
    return -math.inf if math.isnan(value) else value
