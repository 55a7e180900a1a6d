"""How the learning rate moves: pure functions of the step."""

import math
from typing import Literal, assert_never

from pydantic import Field

from calque.config import Config


class ScheduleConfig(Config):
    """A linear warm-up, then one of four ways on."""

    kind: Literal["constant", "inverse_sqrt", "cosine", "linear"] = "inverse_sqrt"
    """inverse_sqrt: ∝ 1/√step (Vaswani 2017, §5.3); cosine and linear fall to `floor` at the last step."""
    warmup: int = Field(default=400, ge=0)
    """Steps over which the rate climbs from zero to its peak."""
    floor: float = Field(default=0.0, ge=0, le=1)
    """The share of the peak at which cosine and linear end."""


def rate_at(config: ScheduleConfig, *, step: int, steps: int) -> float:
    """The share of the peak rate for step number `step` (from 1) of `steps`."""
    if step < config.warmup:
        return step / config.warmup
    start = max(config.warmup, 1)
    through = min(1.0, (step - start) / max(1, steps - start))
    match config.kind:
        case "constant":
            return 1.0
        case "inverse_sqrt":
            return math.sqrt(start / step)
        case "linear":
            return config.floor + (1 - config.floor) * (1 - through)
        case "cosine":
            return config.floor + (1 - config.floor) * 0.5 * (1 + math.cos(math.pi * through))
        case _:
            assert_never(config.kind)
