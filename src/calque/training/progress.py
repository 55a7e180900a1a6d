"""Where a run is, and what its validations mean for it."""

import math
from dataclasses import dataclass, field

from calque.training.settings import TrainingConfig


@dataclass
class Progress:
    """What a checkpoint holds beside tensors."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # of the epoch, the next one to read
    tokens: int = 0  # target tokens since the last line of metrics
    positions: int = 0  # since then, with padding
    filled: int = 0  # of those, the ones that are not padding
    best_value: float | None = None
    best_step: int = 0
    loss_at_best: float = math.inf  # decides between equals: BLEU is 0 for a while
    best_loss: float = math.inf
    since_best: int = 0  # validations in which neither the metric nor the loss got better, after the warm-up
    drops: int = 0  # of the rate, on a plateau
    since_drop: int = 0  # validations on that plateau
    best_steps: list[tuple[float, int]] = field(default_factory=list)  # values and steps whose mean is asked for
    stopped_early: bool = False
    metrics: int = 0  # bytes of metrics.jsonl
    samples: int = 0  # bytes of samples.txt
    parent: int | None = None  # the checkpoint this one follows

    def judge(self, value: float, *, loss: float, config: TrainingConfig) -> bool:
        """Whether a validation is the best so far, where more is better; what that means for stopping is kept."""
        rival = (-math.inf, -math.inf) if self.best_value is None else (self.best_value, -self.loss_at_best)
        is_best = (value, -loss) > rival
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
            ranked = sorted([*self.best_steps, (value, self.step)], key=lambda each: (-each[0], each[1]))
            self.best_steps = ranked[: config.average]
        return is_best
