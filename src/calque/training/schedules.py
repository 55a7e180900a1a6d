"""Learning-rate schedules: pure functions of the step, except plateau, which depends on validations."""

import math
from typing import Literal, assert_never

from pydantic import Field, ValidationInfo, model_validator

from calque.config import Config, refuse_unused_by_kind


class ScheduleConfig(Config):
    """A linear warm-up, followed by one of six schedules."""

    kind: Literal["constant", "inverse_sqrt", "cosine", "linear", "halving", "plateau"] = "inverse_sqrt"
    """constant stays at the peak; inverse_sqrt falls in proportion to 1/√step (Vaswani 2017, §5.3); cosine and linear
    fall to `floor` at the last step; halving multiplies the rate by `factor` at step `after` and then every `every`
    steps (Luong 2015, §4.1); plateau multiplies it by `factor` after every `patience` validations without
    improvement."""
    warmup: int = Field(default=400, ge=0)
    """The number of steps over which the rate rises from zero to its peak."""
    floor: float = Field(default=0.0, ge=0, le=1)
    """The share of the peak at which cosine and linear end, and below which halving and plateau do not fall."""
    factor: float = Field(default=0.5, gt=0, lt=1)
    """halving and plateau: the factor of each reduction."""
    after: int = Field(default=5000, ge=1)
    """halving: the step of the first reduction."""
    every: int = Field(default=1000, ge=1)
    """halving: the number of steps between two reductions."""
    patience: int = Field(default=2, ge=1)
    """plateau: the number of validations without improvement before a reduction."""

    @model_validator(mode="after")
    def _all_is_read(self, info: ValidationInfo) -> "ScheduleConfig":
        refuse_unused_by_kind(self, SCHEDULES_THAT_READ, kind=self.kind, info=info)
        return self


SCHEDULES_THAT_READ: dict[str, tuple[str, ...]] = {
    "floor": ("cosine", "linear", "halving", "plateau"),
    "factor": ("halving", "plateau"),
    "after": ("halving",),
    "every": ("halving",),
    "patience": ("plateau",),
}
"""The kinds of schedule that use each key; keys that are not listed are used by all kinds."""


def rate_at(config: ScheduleConfig, *, step: int, steps: int, drops: int = 0) -> float:
    """The learning rate as a share of the peak, at `step` (from 1) of `steps`, after `drops` reductions on plateaus."""
    if step < config.warmup:
        return step / config.warmup
    start = max(config.warmup, 1)
    progress = min(1.0, (step - start) / max(1, steps - start))
    match config.kind:
        case "constant":
            return 1.0
        case "inverse_sqrt":
            return math.sqrt(start / step)
        case "linear":
            return config.floor + (1 - config.floor) * (1 - progress)
        case "cosine":
            return config.floor + (1 - config.floor) * 0.5 * (1 + math.cos(math.pi * progress))
        case "halving":
            times = 0 if step < config.after else 1 + (step - config.after) // config.every
            return max(config.floor, config.factor**times)
        case "plateau":
            return max(config.floor, config.factor**drops)
        case _:
            assert_never(config.kind)
