"""Confidence: the expected quality of a translation given its probability, calibrated on held-out translations."""

import bisect
from collections.abc import Sequence
from statistics import fmean as mean
from typing import NamedTuple

MINIMUM_TRANSLATIONS = 20  # fewer are not enough to calibrate on


class Confidence(NamedTuple):
    """Maps the mean log-probability of a translation's pieces to its expected chrF, between 0 and 1.

    The map is piecewise linear and non-decreasing through `knots`: x is a log-probability, y the mean chrF of the
    held-out translations near x. Those were decoded greedily, and calibration is weaker for other search methods
    (docs/decisions/0016).
    """

    knots: tuple[tuple[float, float], ...]  # (x, y), at least one, x increasing

    def __call__(self, mean_log_prob: float) -> float:
        xs = [x for x, _ in self.knots]
        right = bisect.bisect_left(xs, mean_log_prob)
        if right == 0:
            return self.knots[0][1]
        if right == len(xs):
            return self.knots[-1][1]
        (left_x, left_y), (right_x, right_y) = self.knots[right - 1], self.knots[right]
        return left_y + (right_y - left_y) * (mean_log_prob - left_x) / (right_x - left_x)


def calibrate(
    mean_log_probs: Sequence[float], translations: Sequence[str], references: Sequence[str]
) -> Confidence | None:
    """The non-decreasing confidence function that fits the held-out translations best; None if there are too few.

    It is found by isotonic regression, with the pool-adjacent-violators algorithm (Ayer 1955).
    """
    if len(translations) < MINIMUM_TRANSLATIONS:
        return None
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    qualities = [
        metric.sentence_score(translation, [reference]).score / 100
        for translation, reference in zip(translations, references, strict=True)
    ]
    return Confidence(isotonic(mean_log_probs, qualities))


def isotonic(xs: Sequence[float], ys: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """The mean x and y of each step of the non-decreasing step function that fits the points best."""
    ordered = sorted(zip(xs, ys, strict=True))
    return tuple(
        (mean([x for x, _ in ordered[block]]), mean([y for _, y in ordered[block]]))
        for block in pool_adjacent_violators([y for _, y in ordered])
    )


def pool_adjacent_violators(values: Sequence[float]) -> list[slice]:
    """Splits values into consecutive blocks whose means form the non-decreasing sequence of least squared error."""
    blocks: list[slice] = []
    for index in range(len(values)):
        blocks.append(slice(index, index + 1))
        while len(blocks) > 1 and mean(values[blocks[-2]]) >= mean(values[blocks[-1]]):
            last = blocks.pop()
            blocks[-1] = slice(blocks[-1].start, last.stop)
    return blocks
