"""Metrics that models are selected by. It does not import torch, so that `calque runs` starts fast."""

from typing import Literal, NamedTuple

Direction = Literal["higher", "lower"]


class Metric(NamedTuple):
    """Whether higher or lower is better, and from which value on differences are meaningful."""

    better: Direction
    chance: float = 0.0  # lower values are chance and count as 0, so that the loss decides

    def worth(self, value: float) -> float:
        """The value with a sign such that higher is better."""
        if self.better == "lower":
            return -value
        return value if value >= self.chance else min(value, 0.0)

    def value(self, worth: float) -> float:
        """The value that has this worth."""
        return -worth if self.better == "lower" else worth

    def is_chance(self, value: float) -> bool:
        """Whether the value is at chance level."""
        return self.better == "higher" and value < self.chance
