"""What makes one value of a metric better than another. Without torch, so that runs are listed at once."""

from typing import Literal, NamedTuple

Direction = Literal["higher", "lower"]


class Metric(NamedTuple):
    """What is better, and from where on a value means something."""

    better: Direction
    chance: float = 0.0  # values up to here are chance, and count as none: then the loss decides

    def worth(self, value: float) -> float:
        """How good a value is: more is better."""
        if self.better == "lower":
            return -value
        return value if value >= self.chance else min(value, 0.0)

    def value(self, worth: float) -> float:
        """The value that has this worth."""
        return -worth if self.better == "lower" else worth

    def is_chance(self, value: float) -> bool:
        """Whether the value says nothing yet."""
        return self.better == "higher" and value < self.chance
