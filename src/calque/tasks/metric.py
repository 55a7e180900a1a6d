"""Metrics that models are selected by. This module does not import torch, so that `calque runs` starts fast."""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Direction = Literal["higher", "lower"]


class Metric(NamedTuple):
    """A metric's direction, the chance level below which differences mean nothing, and the metric that breaks ties."""

    better: Direction
    chance: float = 0.0  # lower values are due to chance and count as 0, so that the loss decides
    tie_breaker: str = "loss"  # decides between equal values, unless the config names another metric

    def worth(self, value: float) -> float:
        """The value on a scale where higher is better. Values below the chance level count as 0."""
        if self.better == "lower":
            return -value
        return value if value >= self.chance else min(value, 0.0)

    def value(self, worth: float) -> float:
        """The metric's value that has this worth: the inverse of `worth` for values above the chance level."""
        return -worth if self.better == "lower" else worth

    def is_chance(self, value: float) -> bool:
        """Whether the value is below the chance level."""
        return self.better == "higher" and value < self.chance


class Selection(NamedTuple):
    """The rule that selects models: by a metric, then by a tie-breaking metric, then by the lower loss."""

    metric: str
    tie_breaker: str  # `loss` if no other metric decides
    metrics: Mapping[str, Metric]

    @property
    def kind(self) -> Metric:
        return self.metrics.get(self.metric, Metric("higher"))

    def worth(self, values: Mapping[str, Any]) -> float:
        """How good a validation is by the metric, higher being better; NaN if the metric was not measured."""
        return self.kind.worth(float(values.get(self.metric, math.nan)))

    def is_chance(self, values: Mapping[str, Any]) -> bool:
        """Whether the values of a validation are below the chance level of the metric."""
        return self.kind.is_chance(float(values.get(self.metric, math.nan)))

    def tie(self, values: Mapping[str, Any]) -> float:
        """How good a validation is by the tie-breaker, higher being better; always 0 if only the loss breaks ties."""
        if self.tie_breaker == "loss":
            return 0.0
        kind = self.metrics.get(self.tie_breaker, Metric("higher"))
        return kind.worth(float(values.get(self.tie_breaker, math.nan)))
