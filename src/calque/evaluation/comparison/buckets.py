"""Buckets: sentences grouped by a property, such as length, and the scores of each group.

Letters: S sentences, K statistics per segment.
"""

import bisect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.evaluation.segment_statistics import Array, SegmentMetric

LENGTHS = (10, 20, 30, 40, 50, 60)
DIFFERENCES = (-20, -10, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 11, 21)
SCORES = (10, 20, 30, 40, 50, 60, 70, 80, 90)


class Cuts(NamedTuple):
    """Boundaries between buckets; a value that equals a boundary belongs to the bucket above it."""

    boundaries: Sequence[float]
    is_whole: bool = True
    """Whether values are integers, so that buckets are labelled by their first and last value."""

    def place(self, value: float) -> int:
        """The number of a value's bucket, from 0."""
        return bisect.bisect_right(self.boundaries, value)

    def labels(self) -> list[str]:
        """A label for every bucket, such as "<10", "10–19", "≥60"."""
        pairs = zip(self.boundaries, self.boundaries[1:], strict=False)
        middle = [self._label(low, high) for low, high in pairs]
        labels = [f"<{self.boundaries[0]:g}", *middle, f"≥{self.boundaries[-1]:g}"]
        return [label.replace("-", "−") for label in labels]

    def _label(self, low: float, high: float) -> str:
        if not self.is_whole:
            return f"{low:g} to <{high:g}"
        if high - low == 1:
            return f"{low:g}"
        return f"{low:g} to {high - 1:g}" if low < 0 else f"{low:g}–{high - 1:g}"


class Buckets(NamedTuple):
    """Labels of buckets, and the bucket of each sentence."""

    labels: list[str]
    places: NDArray[np.int64]  # [S]

    @classmethod
    def of(cls, values: Sequence[float], *, cuts: Cuts) -> "Buckets":
        """The bucket of each sentence, given its value, such as its length."""
        return cls(cuts.labels(), np.array([cuts.place(value) for value in values], dtype=np.int64))

    @classmethod
    def of_labels(cls, labels: Sequence[str]) -> "Buckets":
        """One bucket per label, in alphabetical order, given the label of each sentence."""
        names = sorted(set(labels))
        places = {name: place for place, name in enumerate(names)}
        return cls(names, np.array([places[label] for label in labels], dtype=np.int64))

    def counts(self) -> list[int]:
        """The number of sentences in each bucket."""
        return [int(count) for count in np.bincount(self.places, minlength=len(self.labels))]

    def sums(self, statistics: Array) -> Array:
        """The statistics [S,K] added up by bucket, [buckets,K]."""
        totals = np.zeros((len(self.labels), statistics.shape[1]))
        np.add.at(totals, self.places, statistics)
        return totals

    def scores(self, statistics: Array, *, metric: SegmentMetric) -> list[float | None]:
        """The corpus score of each bucket; None for empty ones."""
        scores = metric.scores(self.sums(statistics))
        return [float(score) if count else None for score, count in zip(scores, self.counts(), strict=True)]


Statistics = Sequence[Array]
"""The statistics [S,K] of each system."""


def section(
    id: str,
    title: str,
    buckets: Sequence[Buckets],
    *,
    metrics: Sequence[SegmentMetric],
    statistics: Mapping[str, Statistics],
) -> dict[str, Any]:
    """The scores of each system by bucket, for the JSON of a comparison; `buckets` groups each system's sentences.

    Buckets without a sentence of any system are left out.
    """
    counts = [part.counts() for part in buckets]
    kept = [place for place in range(len(buckets[0].labels)) if any(row[place] for row in counts)]
    scores = {
        metric.name: [
            part.scores(rows, metric=metric) for part, rows in zip(buckets, statistics[metric.name], strict=True)
        ]
        for metric in metrics
    }
    return {
        "id": id,
        "title": title,
        "buckets": [buckets[0].labels[place] for place in kept],
        "counts": [[row[place] for place in kept] for row in counts],
        "scores": {name: [[row[place] for place in kept] for row in rows] for name, rows in scores.items()},
    }
