"""Length buckets: a small number of batch sizes for a corpus, chosen to fit its lengths.

Compiled or captured graphs need few sizes, but few sizes mean much padding. The search minimises the padded positions

    Σ over rows of (total width of the cheapest size that holds the row)  +  ½ budget per size

where the second term is the cost per epoch of a size's last, partly filled batch. There are two padded axes, such as
source and target; with a single axis, widths on the second are 0. A dynamic programme divides the second axis into
strips and each strip into sizes along the first axis; a local search then moves one boundary at a time.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_BOUNDARIES = 48  # candidate widths per axis: quantiles of the lengths


class Size(NamedTuple):
    """A batch's size: the number of rows, and their width on each padded axis, begin and end marks included."""

    rows: int
    widths: tuple[int, ...]

    @property
    def positions(self) -> int:
        """The number of positions in a batch of this size, padding included.

        If no axis is padded, every row counts as one position.
        """
        return self.rows * (sum(self.widths) if self.widths else 1)


class Histogram(NamedTuple):
    """The number of pairs by source and target width.

    `counts[i, j]` pairs have sources[i - 1] < source width ≤ sources[i] and targets[j - 1] < target width ≤ targets[j].
    """

    sources: Array
    targets: Array
    counts: Array


def find_sizes(histogram: Histogram, *, budget: int, limit: int) -> tuple[Size, ...]:
    """At most `limit` batch sizes such that every row of the histogram fits into one, smallest total width first."""
    if not histogram.counts.any():
        return ()
    strips = _strips(histogram, budget=budget, limit=limit)
    transposed_strips = _strips(_transpose(histogram), budget=budget, limit=limit)
    starts = [strips, [(source, target) for target, source in transposed_strips]]
    cells = _Cells.of(histogram, budget=budget)
    corners = min((cells.descend(corners) for corners in starts), key=cells.cost)
    widths = {(int(histogram.sources[i]), int(histogram.targets[j])) for i, j in corners}
    sizes = [Size(_rows(source + target, budget=budget), (source, target)) for source, target in widths]
    return tuple(sorted(sizes, key=lambda size: (sum(size.widths), size.widths)))


def boundaries(counts: Array) -> Array:
    """Candidate widths: quantiles of the lengths, including the greatest, given the number of rows of each length."""
    lengths = np.flatnonzero(counts)
    if len(lengths) <= _BOUNDARIES:
        return lengths
    cumulative = np.cumsum(counts[lengths])
    levels = cumulative[-1] * np.arange(1, _BOUNDARIES + 1) / _BOUNDARIES
    quantiles: Array = lengths[np.unique(np.minimum(np.searchsorted(cumulative, levels), len(lengths) - 1))]
    return quantiles


def _rows(width: int, *, budget: int) -> int:
    """How many rows of this width fit into `budget` positions: at least 1, and a multiple of 8 if that is 8 or more."""
    rows = max(1, budget // max(1, width))  # rows without values have no width
    return rows if rows < 8 else rows // 8 * 8


def _transpose(histogram: Histogram) -> Histogram:
    return Histogram(histogram.targets, histogram.sources, histogram.counts.T)


def _strips(histogram: Histogram, *, budget: int, limit: int) -> list[tuple[int, int]]:
    """The cheapest batch sizes (up to `limit`) that divide pairs into strips by target width, then by source width.

    A batch size is represented by its corner: the indices of its source and target widths in the histogram. The cost is
    the number of positions in an epoch, padding included.
    """
    below = np.zeros((len(histogram.targets) + 1, len(histogram.sources) + 1))
    below[1:, 1:] = histogram.counts.T.cumsum(0).cumsum(1)
    height = len(histogram.targets)
    best = np.full((height + 1, limit + 1), np.inf)
    best[0, 0] = 0
    chosen: dict[tuple[int, int], tuple[int, list[int]]] = {}
    for top in range(1, height + 1):
        for bottom in range(top):
            cuts = _cuts(below[top] - below[bottom], histogram, top=top, budget=budget, limit=limit)
            for count, (cost, ends) in enumerate(cuts, start=1):
                through = best[bottom, : limit + 1 - count] + cost
                for total in (np.flatnonzero(through < best[top, count:]) + count).tolist():
                    best[top, total] = through[total - count]
                    chosen[top, total] = (bottom, ends)
    top, total = height, int(best[height].argmin())
    corners: list[tuple[int, int]] = []
    while top:
        bottom, ends = chosen[top, total]
        corners += [(end, top - 1) for end in ends]
        top, total = bottom, total - len(ends)
    return corners


def _cuts(below: Array, histogram: Histogram, *, top: int, budget: int, limit: int) -> list[tuple[float, list[int]]]:
    """For 1, 2, … batch sizes: the least cost of a strip (pairs of similar target width), and the sizes' source widths.

    `below` counts the strip's pairs below each source width; `top` numbers, from 1, its largest target width. Source
    widths are returned as indices into the histogram.
    """
    size = len(below)
    widths = np.concatenate([[0], histogram.sources]) + histogram.targets[top - 1]
    cost = (below[None] - below[:, None]) * widths[None] + budget / 2
    cost[np.tril_indices(size)] = np.inf
    last = max(1, int(np.argmax(below == below[-1])))
    reached = np.where(below == 0, 0.0, np.inf)  # a strip without rows costs nothing
    steps: list[Array] = []
    cuts: list[tuple[float, list[int]]] = []
    for _ in range(min(limit, last, 6)):
        through = reached[:, None] + cost
        steps.append(through.argmin(0))
        reached = through.min(0)
        cuts.append((float(reached[last]), _backtrace(steps, last)))
    return cuts


def _backtrace(steps: list[Array], last: int) -> list[int]:
    ends = []
    for step in reversed(steps):
        ends.append(last - 1)
        last = int(step[last])
    return ends


class _Cells(NamedTuple):
    """The non-empty cells of a histogram of source and target widths, used to improve batch sizes by local search."""

    source: Array  # index of each cell's source boundary
    target: Array
    counts: Array
    widths: tuple[Array, Array]
    budget: int

    @classmethod
    def of(cls, histogram: Histogram, *, budget: int) -> "_Cells":
        source, target = np.nonzero(histogram.counts)
        counts = histogram.counts[source, target]
        return cls(source, target, counts, (histogram.sources, histogram.targets), budget)

    def column(self, corner: tuple[int, int]) -> Array:
        """For each cell, the width of its pairs if padded to size `corner` (see `_strips`); infinity if too wide."""
        width = float(self.widths[0][corner[0]] + self.widths[1][corner[1]])
        return np.where((self.source <= corner[0]) & (self.target <= corner[1]), width, np.inf)

    def cost(self, corners: list[tuple[int, int]]) -> float:
        cheapest = np.min([self.column(corner) for corner in corners], axis=0)
        return float((self.counts * cheapest).sum()) + len(set(corners)) * self.budget / 2

    def descend(self, corners: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The batch sizes after a local search: moving any one by up to two widths per axis no longer reduces padding.

        Each size is given as in `_strips`. The search ends after 30 rounds at the latest.
        """
        corners = list(corners)
        for _ in range(30):
            before = list(corners)
            for index in range(len(corners)):
                corners[index] = self._improve(corners, moved=index)
            if corners == before:
                break
        return corners

    def _improve(self, corners: list[tuple[int, int]], *, moved: int) -> tuple[int, int]:
        """The replacement for batch size `corners[moved]`, up to two widths away per axis, that pads least."""
        fixed = [self.column(corner) for index, corner in enumerate(corners) if index != moved]
        fixed_cost = np.min(fixed, axis=0) if fixed else np.full(len(self.counts), np.inf)
        i, j = corners[moved]
        moves = [(i, j)] + [(i + a, j + b) for a in range(-2, 3) for b in range(-2, 3) if (a, b) != (0, 0)]
        inside = [(a, b) for a, b in moves if 0 <= a < len(self.widths[0]) and 0 <= b < len(self.widths[1])]
        costs = [float((self.counts * np.minimum(fixed_cost, self.column(move))).sum()) for move in inside]
        return inside[int(np.argmin(costs))]
