"""Metrics that models are selected by. It does not import torch, so that `calque runs` starts fast."""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Direction = Literal["higher", "lower"]


class Metric(NamedTuple):
    """Whether higher or lower is better, from which value on differences are meaningful, and what breaks ties."""

    better: Direction
    chance: float = 0.0  # lower values are chance and count as 0, so that the loss decides
    tie_breaker: str = "loss"  # decides between equal values, unless the config names another metric

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


class Selection(NamedTuple):
    """The rule that selects models: a metric; where it is equal, another; where both are, the lower loss."""

    metric: str
    tie_breaker: str  # `loss` if no other metric decides
    metrics: Mapping[str, Metric]

    @property
    def kind(self) -> Metric:
        return self.metrics.get(self.metric, Metric("higher"))

    def worth(self, values: Mapping[str, Any]) -> float:
        """The worth of a validation by the metric; NaN if that was not measured."""
        return self.kind.worth(float(values.get(self.metric, math.nan)))

    def is_chance(self, values: Mapping[str, Any]) -> bool:
        """Whether a validation is at chance level by the metric."""
        return self.kind.is_chance(float(values.get(self.metric, math.nan)))

    def tie(self, values: Mapping[str, Any]) -> float:
        """The worth of a validation by the tie-breaker; 0 for every validation if only the loss breaks ties."""
        if self.tie_breaker == "loss":
            return 0.0
        kind = self.metrics.get(self.tie_breaker, Metric("higher"))
        return kind.worth(float(values.get(self.tie_breaker, math.nan)))
