"""Lengths and length ratios of a corpus: added up in fixed memory, then summed up in a few figures."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_BINS = 12
_STEP = 0.02  # of a log ratio
_WIDEST = 12.0
_EXAMPLES = 5
_SUSPICIOUS = 3.0  # times the usual ratio
_SHORT = 10  # characters; below, any ratio is usual


class Lengths(NamedTuple):
    """How long texts are, in characters."""

    shortest: int
    median: int
    mean: float
    longest: int
    histogram: list[tuple[int, int]]
    """(up to this many characters, how many texts); the last bin holds the longest 1 %."""


class Ratios(NamedTuple):
    """How the lengths of target and source compare."""

    usual: float
    """The median of target characters / source characters."""
    suspicious: int
    """Pairs at least three times off the usual ratio, and not short."""
    examples: list[tuple[int, float]]
    """(line, ratio) of those furthest off."""


class LengthCount:
    """Counts texts by length."""

    def __init__(self) -> None:
        self._counts: Array = np.zeros(1, dtype=np.int64)

    def add(self, lengths: Array) -> None:
        """Counts some more."""
        counts = np.bincount(lengths, minlength=len(self._counts))
        counts[: len(self._counts)] += self._counts
        self._counts = counts

    def summary(self) -> Lengths:
        """The figures; zeros for nothing."""
        total = int(self._counts.sum())
        if not total:
            return Lengths(0, 0, 0.0, 0, [])
        below = np.cumsum(self._counts)
        present = np.flatnonzero(self._counts)
        median, most = (int(np.searchsorted(below, share * total)) for share in (0.5, 0.99))
        width = max(1, math.ceil(most / _BINS))
        edges = [*range(width, max(1, most) + width, width)]
        ends = [*edges, int(present[-1])] if present[-1] > edges[-1] else edges
        held = [0, *(int(below[min(end, len(below) - 1)]) for end in ends)]
        return Lengths(
            shortest=int(present[0]),
            median=median,
            mean=float((self._counts * np.arange(len(self._counts))).sum() / total),
            longest=int(present[-1]),
            histogram=[(end, held[at + 1] - held[at]) for at, end in enumerate(ends)],
        )


class RatioCount:
    """Counts pairs by the logarithm of their length ratio, and remembers the most extreme."""

    def __init__(self) -> None:
        size = round(2 * _WIDEST / _STEP) + 1
        self._all = np.zeros(size, dtype=np.int64)
        self._long = np.zeros(size, dtype=np.int64)
        self._lowest: list[tuple[float, int]] = []
        self._highest: list[tuple[float, int]] = []

    def add(self, source: Array, *, target: Array, lines: Array) -> None:
        """Counts some more; no length is 0."""
        ratios = np.log(target / source)
        places = np.clip(np.rint((ratios + _WIDEST) / _STEP).astype(np.int64), 0, len(self._all) - 1)
        self._all += np.bincount(places, minlength=len(self._all))
        long = np.maximum(source, target) >= _SHORT
        self._long += np.bincount(places[long], minlength=len(self._all))
        found = sorted(zip(ratios[long].tolist(), lines[long].tolist(), strict=True))
        self._lowest = sorted(self._lowest + found[:_EXAMPLES])[:_EXAMPLES]
        self._highest = sorted(self._highest + found[-_EXAMPLES:])[-_EXAMPLES:]

    def summary(self) -> Ratios:
        """The figures."""
        total = int(self._all.sum())
        if not total:
            return Ratios(1.0, 0, [])
        usual = int(np.searchsorted(np.cumsum(self._all), total / 2)) * _STEP - _WIDEST
        off = np.abs(np.arange(len(self._all)) * _STEP - _WIDEST - usual)
        extremes = sorted({*self._lowest, *self._highest}, key=lambda one: -abs(one[0] - usual))
        bound = math.log(_SUSPICIOUS)
        return Ratios(
            usual=math.exp(usual),
            suspicious=int(self._long[off >= bound].sum()),
            examples=[(line, math.exp(ratio)) for ratio, line in extremes if abs(ratio - usual) >= bound][:_EXAMPLES],
        )
