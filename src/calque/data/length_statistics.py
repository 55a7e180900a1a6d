"""Lengths and length ratios of a corpus: accumulated in fixed memory, then summarised."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_BINS = 12
_STEP = 0.02  # width of a bin of log ratios
_WIDEST = 12.0
_EXAMPLES = 5
_SUSPICIOUS = 3.0  # times the median ratio
_SHORT = 10  # characters; for shorter texts, any ratio is plausible


class Lengths(NamedTuple):
    """Summary statistics of the lengths of texts."""

    shortest: int
    median: int
    mean: float
    longest: int
    histogram: list[tuple[int, int]]
    """(upper bound in characters, number of texts); the last bin holds the longest 1 %."""


class Ratios(NamedTuple):
    """Summary statistics of the ratios of target length to source length."""

    usual: float
    """The median of target characters / source characters."""
    suspicious: int
    """The number of pairs, short ones excepted, whose ratio differs from the median by a factor of at least three."""
    examples: list[tuple[int, float]]
    """(line, ratio) of the most extreme pairs."""


class LengthCount:
    """A histogram of text lengths."""

    def __init__(self) -> None:
        self._counts: Array = np.zeros(1, dtype=np.int64)

    def add(self, lengths: Array) -> None:
        """Adds texts of these lengths."""
        counts = np.bincount(lengths, minlength=len(self._counts))
        counts[: len(self._counts)] += self._counts
        self._counts = counts

    def summary(self) -> Lengths:
        """The statistics of all lengths added so far; zeros if there are none."""
        total = int(self._counts.sum())
        if not total:
            return Lengths(0, 0, 0.0, 0, [])
        below = np.cumsum(self._counts)
        present = np.flatnonzero(self._counts)
        median, percentile_99 = (int(np.searchsorted(below, share * total)) for share in (0.5, 0.99))
        width = max(1, math.ceil(percentile_99 / _BINS))
        edges = [*range(width, max(1, percentile_99) + width, width)]
        ends = [*edges, int(present[-1])] if present[-1] > edges[-1] else edges
        cumulative = [0, *(int(below[min(end, len(below) - 1)]) for end in ends)]
        return Lengths(
            shortest=int(present[0]),
            median=median,
            mean=float((self._counts * np.arange(len(self._counts))).sum() / total),
            longest=int(present[-1]),
            histogram=[(end, cumulative[index + 1] - cumulative[index]) for index, end in enumerate(ends)],
        )


class RatioCount:
    """A histogram of the logarithms of length ratios, and the most extreme pairs."""

    def __init__(self) -> None:
        size = round(2 * _WIDEST / _STEP) + 1
        self._all = np.zeros(size, dtype=np.int64)
        self._long = np.zeros(size, dtype=np.int64)
        self._lowest: list[tuple[float, int]] = []
        self._highest: list[tuple[float, int]] = []

    def add(self, source: Array, *, target: Array, lines: Array) -> None:
        """Adds pairs with these source and target lengths, all above 0, at these lines of the corpus."""
        ratios = np.log(target / source)
        bins = np.clip(np.rint((ratios + _WIDEST) / _STEP).astype(np.int64), 0, len(self._all) - 1)
        self._all += np.bincount(bins, minlength=len(self._all))
        long = np.maximum(source, target) >= _SHORT
        self._long += np.bincount(bins[long], minlength=len(self._all))
        extremes = sorted(zip(ratios[long].tolist(), lines[long].tolist(), strict=True))
        self._lowest = sorted(self._lowest + extremes[:_EXAMPLES])[:_EXAMPLES]
        self._highest = sorted(self._highest + extremes[-_EXAMPLES:])[-_EXAMPLES:]

    def summary(self) -> Ratios:
        """The statistics of all ratios added so far."""
        total = int(self._all.sum())
        if not total:
            return Ratios(1.0, 0, [])
        median = int(np.searchsorted(np.cumsum(self._all), total / 2)) * _STEP - _WIDEST
        deviations = np.abs(np.arange(len(self._all)) * _STEP - _WIDEST - median)
        extremes = sorted({*self._lowest, *self._highest}, key=lambda pair: -abs(pair[0] - median))
        bound = math.log(_SUSPICIOUS)
        return Ratios(
            usual=math.exp(median),
            suspicious=int(self._long[deviations >= bound].sum()),
            examples=[(line, math.exp(ratio)) for ratio, line in extremes if abs(ratio - median) >= bound][:_EXAMPLES],
        )
