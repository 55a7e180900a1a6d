"""How good a translation probably is, told from its probability, as held-out translations turned out."""

import bisect
from collections.abc import Sequence
from statistics import fmean as mean
from typing import NamedTuple

from sacrebleu.metrics.chrf import CHRF

FEWEST = 20  # translations from which something can be told


class Confidence(NamedTuple):
    """From the mean log-probability of a translation's pieces to the chrF, between 0 and 1, it can be expected to have.

    The line through `knots` never falls: x is a log-probability, y the mean chrF of held-out translations about there.
    They were searched greedily: of others it holds less well (docs/decisions/0016).
    """

    knots: tuple[tuple[float, float], ...]  # (x, y), at least one, x growing

    def __call__(self, mean_log_prob: float) -> float:
        places = [x for x, _ in self.knots]
        right = bisect.bisect_left(places, mean_log_prob)
        if right == 0:
            return self.knots[0][1]
        if right == len(places):
            return self.knots[-1][1]
        (before, low), (after, high) = self.knots[right - 1], self.knots[right]
        return low + (high - low) * (mean_log_prob - before) / (after - before)


def calibrate(
    mean_log_probs: Sequence[float], translations: Sequence[str], references: Sequence[str]
) -> Confidence | None:
    """The confidence that fits held-out translations best among those that never fall; None for too few.

    Isotonic regression by pooling neighbours that stand the wrong way round (Ayer 1955).
    """
    if len(translations) < FEWEST:
        return None
    metric = CHRF()
    qualities = [
        metric.sentence_score(one, [other]).score / 100 for one, other in zip(translations, references, strict=True)
    ]
    return Confidence(isotonic(mean_log_probs, qualities))


def isotonic(places: Sequence[float], values: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """The mean place and value of each block of the never-falling step function nearest to the values."""
    ordered = sorted(zip(places, values, strict=True))
    return tuple(
        (mean([place for place, _ in ordered[block]]), mean([value for _, value in ordered[block]]))
        for block in pooled([value for _, value in ordered])
    )


def pooled(values: Sequence[float]) -> list[slice]:
    """The blocks of values whose means, which grow, are nearest to the values among all that never fall."""
    blocks: list[slice] = []
    for place in range(len(values)):
        blocks.append(slice(place, place + 1))
        while len(blocks) > 1 and mean(values[blocks[-2]]) >= mean(values[blocks[-1]]):
            last = blocks.pop()
            blocks[-1] = slice(blocks[-1].start, last.stop)
    return blocks
