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
        """A value of this metric, converted to a scale where higher is better.

        If lower is better, the value is negated. If higher is better, it is unchanged, except that a positive value
        strictly below the chance level becomes 0.
        """
        if self.better == "lower":
            return -value
        return value if value >= self.chance else min(value, 0.0)

    def value(self, worth: float) -> float:
        """The metric's value with this `worth`: the inverse of `worth`, except for values below the chance level."""
        return -worth if self.better == "lower" else worth

    def is_chance(self, value: float) -> bool:
        """Whether a value of this metric is strictly below the chance level; always False if lower is better."""
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
        """`Metric.worth` of the selecting metric, given all metric values of a validation; NaN if it is missing."""
        return self.kind.worth(float(values.get(self.metric, math.nan)))

    def is_chance(self, values: Mapping[str, Any]) -> bool:
        """Whether the selecting metric's value, among all `values` of a validation, is below its chance level."""
        return self.kind.is_chance(float(values.get(self.metric, math.nan)))

    def tie(self, values: Mapping[str, Any]) -> float:
        """`Metric.worth` of the tie-breaking metric, given all metric values of a validation; 0 if that is the loss."""
        if self.tie_breaker == "loss":
            return 0.0
        kind = self.metrics.get(self.tie_breaker, Metric("higher"))
        return kind.worth(float(values.get(self.tie_breaker, math.nan)))
