"""The progress of a run: its position, its best validations, early stopping and plateaus."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from calque.tasks.interfaces import Selection
from calque.training.settings import TrainingConfig


class Rank(NamedTuple):
    """A sort key that puts the best validation first: higher value, then higher tie-breaker, lower loss, lower step."""

    negated_value: float
    negated_tie: float
    loss: float
    step: int


def rank(value: float, *, loss: float, step: int, tie: float = 0.0) -> Rank:
    """The sort key of a validation, given its `value` (higher is better), tie-breaker and loss.

    `tie` is the value of the tie-breaking metric (higher is better), 0 if only the loss breaks ties.
    """
    return Rank(-value, -tie, loss, step)


@dataclass
class Progress:
    """The state of a run that checkpoints save besides tensors, such as its position and its best validations."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # in the epoch, the next one to read
    tokens: float = 0  # that the loss is summed over, since the last line of metrics
    positions: int = 0  # since the last line of metrics, with padding
    filled: int = 0  # since the last line of metrics, without padding
    metric: str | None = None  # the metric of all values below; None in older checkpoints
    tie_breaker: str = "loss"  # the metric of all ties below
    best_value: float | None = None  # -inf if the value of the best model is unknown
    best_step: int = 0
    tie_at_best: float = 0.0  # worth of the tie-breaker; 0 if only the loss breaks ties
    loss_at_best: float = math.inf  # breaks the remaining ties: BLEU is 0 at first
    best_loss: float = math.inf
    since_best: int = 0  # validations since the metric or the loss improved, after the warm-up
    drops: int = 0  # of the learning rate, on plateaus
    since_drop: int = 0  # validations without improvement since the last drop
    best_steps: list[tuple[float, int]] = field(default_factory=list)  # values and steps of the checkpoints to average
    best_steps_ties: list[float] = field(default_factory=list)  # of `best_steps`; empty in older checkpoints
    best_steps_losses: list[float] = field(default_factory=list)  # of `best_steps`; empty in older checkpoints
    losses: list[float] = field(default_factory=list)  # of all validations, if averaging waits for a trigger
    averaged_steps: int = 0  # in the triggered average
    stopped_early: bool = False
    metrics: int = 0  # bytes of metrics.jsonl
    samples: int = 0  # bytes of samples.txt
    gradients: int = 0  # bytes of gradients.jsonl
    parent: int | None = None  # the step of the checkpoint before this one

    def judge(self, value: float, *, loss: float, config: TrainingConfig, tie: float = 0.0) -> bool:
        """Records a validation and returns whether it is the best so far.

        The higher `value` of the metric wins, then the higher `tie` of the tie-breaker, then the lower loss.
        """
        rival = -math.inf if self.best_value is None else self.best_value
        best = rank(rival, tie=self.tie_at_best, loss=self.loss_at_best, step=self.best_step)
        is_best = rank(value, tie=tie, loss=loss, step=self.step) < best
        is_improving = is_best or loss < self.best_loss or self.step <= config.schedule.warmup
        if is_best:
            self.best_value, self.best_step, self.tie_at_best, self.loss_at_best = value, self.step, tie, loss
        self.since_best = 0 if is_improving else self.since_best + 1
        self.stopped_early = 0 < config.patience <= self.since_best
        self.since_drop = 0 if is_improving else self.since_drop + 1
        if config.schedule.kind == "plateau" and self.since_drop >= config.schedule.patience:
            self.drops, self.since_drop = self.drops + 1, 0
        self.best_loss = min(self.best_loss, loss)
        if config.average > 1 and config.average_of == "best":
            self._record_best_steps(rank(value, tie=tie, loss=loss, step=self.step), count=config.average)
        return is_best

    def triggers_averaging(self, loss: float, *, patience: int) -> bool:
        """Records a loss and returns whether it is worse than the best one before the last `patience` validations.

        This is the non-monotonic trigger of Merity et al. 2018, algorithm 1.
        """
        before = self.losses[:-patience]
        self.losses.append(loss)
        return bool(before) and loss > min(before)

    def switch_selection(self, selection: Selection, *, validations: Mapping[int, Mapping[str, Any]]) -> str:
        """Selects models by another metric or tie-breaker from now on. Returns a line for the log that says so.

        The values of the best models are looked up in `validations`, the lines of metrics.jsonl by step. A model whose
        line lacks the metric ranks below all others. The count of validations without improvement starts again.
        """
        metric, is_other_metric = selection.metric, selection.metric != self.metric
        self.metric, self.tie_breaker = metric, selection.tie_breaker
        self.since_best, self.since_drop, self.stopped_early = 0, 0, False
        lines = [(validations.get(step, {}), step) for _, step in self.best_steps]
        self.best_steps = [(_known(selection.worth(line)), step) for line, step in lines]
        self.best_steps_ties = [_known(selection.tie(line)) for line, _ in lines]
        message = f"training.metric is now {metric}" if is_other_metric else ""
        if not is_other_metric or selection.tie_breaker != "loss":
            message = f"{message or 'training.metric is still ' + metric}, with ties broken by {selection.tie_breaker}"
        if self.best_value is None:
            return message
        line = validations.get(self.best_step, {})
        self.best_value, self.tie_at_best = _known(selection.worth(line)), _known(selection.tie(line))
        message = f"{message}: the best model (step {self.best_step})"
        if self.best_value == -math.inf:
            return f"{message} has no value of this metric, so the next validation will be the best so far"
        return f"{message} has {line[metric]:.3f}"

    def _record_best_steps(self, latest: Rank, *, count: int) -> None:
        losses = self.best_steps_losses or [math.inf] * len(self.best_steps)  # unknown losses rank last
        ties = self.best_steps_ties or [0.0] * len(self.best_steps)
        best = [
            rank(value, tie=tie, loss=loss, step=step)
            for (value, step), tie, loss in zip(self.best_steps, ties, losses, strict=True)
        ]
        best = sorted([*best, latest])[:count]
        self.best_steps = [(-key.negated_value, key.step) for key in best]
        self.best_steps_ties = [-key.negated_tie for key in best]
        self.best_steps_losses = [key.loss for key in best]


def _known(worth: float) -> float:
    """The value of a metric (higher is better), or -inf if it is unknown (NaN)."""
    return -math.inf if math.isnan(worth) else worth
