"""Where a run is, and what its validations mean for it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calque.tasks.interfaces import Metric
from calque.training.settings import TrainingConfig


def rank(value: float, *, loss: float, step: int) -> tuple[float, float, int]:
    """Sorts validations, the best first: the higher value; among equals the lower loss, and then the earlier step."""
    return (-value, loss, step)


@dataclass
class Progress:
    """What a checkpoint holds beside tensors."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # of the epoch, the next one to read
    tokens: float = 0  # what the loss is a sum over, since the last line of metrics
    positions: int = 0  # since then, with padding
    filled: int = 0  # of those, the ones that are not padding
    metric: str | None = None  # that values are of; checkpoints made before did not say
    best_value: float | None = None  # -inf where a model is kept whose value nobody knows
    best_step: int = 0
    loss_at_best: float = math.inf  # decides between equals: BLEU is 0 for a while
    best_loss: float = math.inf
    since_best: int = 0  # validations in which neither the metric nor the loss got better, after the warm-up
    drops: int = 0  # of the rate, on a plateau
    since_drop: int = 0  # validations on that plateau
    best_steps: list[tuple[float, int]] = field(default_factory=list)  # values and steps whose mean is asked for
    best_steps_losses: list[float] = field(default_factory=list)  # one each; checkpoints made before did not have them
    losses: list[float] = field(default_factory=list)  # of all validations, where averaging waits for a trigger
    averaged_steps: int = 0  # that the mean is of, once it was triggered
    stopped_early: bool = False
    metrics: int = 0  # bytes of metrics.jsonl
    samples: int = 0  # bytes of samples.txt
    parent: int | None = None  # the checkpoint this one follows

    def judge(self, value: float, *, loss: float, config: TrainingConfig) -> bool:
        """Whether a validation is the best so far, where more is better; what that means for stopping is kept."""
        rival = -math.inf if self.best_value is None else self.best_value
        is_best = rank(value, loss=loss, step=self.step) < rank(rival, loss=self.loss_at_best, step=self.best_step)
        is_waiting = is_best or loss < self.best_loss or self.step <= config.schedule.warmup
        if is_best:
            self.best_value, self.best_step, self.loss_at_best = value, self.step, loss
        self.since_best = 0 if is_waiting else self.since_best + 1
        self.stopped_early = 0 < config.patience <= self.since_best
        self.since_drop = 0 if is_waiting else self.since_drop + 1
        if config.schedule.kind == "plateau" and self.since_drop >= config.schedule.patience:
            self.drops, self.since_drop = self.drops + 1, 0
        self.best_loss = min(self.best_loss, loss)
        if config.average > 1 and config.average_of == "best":
            self._note_best_steps(value, loss=loss, count=config.average)
        return is_best

    def triggers_averaging(self, loss: float, *, patience: int) -> bool:
        """Whether this validation, and the last ones before it, were not better than the best before those."""
        before = self.losses[: len(self.losses) - patience + 1]
        self.losses.append(loss)
        return bool(before) and loss > min(before)

    def turn_to(self, metric: str, *, kind: Metric, validations: Mapping[int, Mapping[str, Any]]) -> str:
        """From now on another metric decides; what there is to say of it.

        Values become those of the new metric, as the lines of `validations`, by step, have them. Where a line lacks it,
        anything is better. Patience starts anew.
        """
        self.metric, self.since_best, self.since_drop, self.stopped_early = metric, 0, 0, False
        self.best_steps = [
            (_value(validations.get(step, {}), metric=metric, kind=kind), step) for _, step in self.best_steps
        ]
        if self.best_value is None:
            return f"training.metric is now {metric}"
        found = validations.get(self.best_step, {})
        self.best_value = _value(found, metric=metric, kind=kind)
        kept = f"training.metric is now {metric}: the kept model of step {self.best_step}"
        if self.best_value == -math.inf:
            return f"{kept} was not measured by it, so the next validation is the best so far"
        return f"{kept} has {found[metric]:.3f}"

    def _note_best_steps(self, value: float, *, loss: float, count: int) -> None:
        known = self.best_steps_losses or [math.inf] * len(self.best_steps)  # whose loss nobody knows goes first
        found = [(*each, its_loss) for each, its_loss in zip(self.best_steps, known, strict=True)]
        ranked = sorted([*found, (value, self.step, loss)], key=lambda one: rank(one[0], loss=one[2], step=one[1]))
        self.best_steps = [(its_value, step) for its_value, step, _ in ranked[:count]]
        self.best_steps_losses = [its_loss for _, _, its_loss in ranked[:count]]


def _value(line: Mapping[str, Any], *, metric: str, kind: Metric) -> float:
    """What the line of a validation is worth; -inf where it does not say."""
    value = kind.worth(float(line.get(metric, math.nan)))
    return -math.inf if math.isnan(value) else value
