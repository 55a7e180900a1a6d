"""Confidence intervals from bootstrap resamples."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PERCENTILES = (2.5, 97.5)  # the ends of a 95 % interval


class Interval(NamedTuple):
    """A metric's value and its 95 % confidence interval."""

    value: float
    low: float
    high: float


def percentiles(resampled: NDArray[Any]) -> tuple[float, float]:
    """The ends of the 95 % confidence interval, given the values of bootstrap resamples."""
    low, high = np.percentile(resampled, PERCENTILES)
    return float(low), float(high)
