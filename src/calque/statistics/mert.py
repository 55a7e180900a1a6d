"""Minimum error rate training: the weights of a log-linear model that maximise a corpus metric (Och 2003).

Letters: S segments, C candidates per segment (the longest list), F features, K statistics per candidate.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.statistics.cooccurrence import Floats

Scores = Callable[[Floats], NDArray[Any]]
"""A function from sums of segment statistics [R,K] to corpus scores [R]; higher is better."""

STEP = 0.1  # how far beyond the outermost threshold a line search goes
LEAST_GAIN = 1e-4  # of the score; smaller gains do not count


class Candidates(NamedTuple):
    """The candidates of all segments; lists are padded to the same length."""

    features: Floats  # [S,C,F]
    statistics: Floats  # [S,C,K]
    exists: NDArray[np.bool_]  # [S,C]


class Optimum(NamedTuple):
    """Weights, and the corpus score of the candidates that are best with them."""

    weights: Floats
    score: float


def pad_candidates(features: Sequence[Floats], statistics: Sequence[Floats]) -> Candidates:
    """The candidates of all segments, given the features [c,F] and statistics [c,K] of each segment's candidates."""
    most = max(len(rows) for rows in features)
    exists = np.array([[place < len(rows) for place in range(most)] for rows in features])

    def padded(parts: Sequence[Floats]) -> Floats:
        values = np.zeros((len(parts), most, parts[0].shape[1]))
        for place, rows in enumerate(parts):
            values[place, : len(rows)] = rows
        return values

    return Candidates(padded(features), padded(statistics), exists)


def corpus_score(candidates: Candidates, weights: Floats, *, scores: Scores) -> float:
    """The corpus score of the candidates that are best with these weights."""
    totals = np.where(candidates.exists, candidates.features @ weights, -np.inf)
    best = totals.argmax(axis=1)
    return float(scores(candidates.statistics[np.arange(len(best)), best].sum(axis=0, keepdims=True))[0])


def line_search(candidates: Candidates, weights: Floats, direction: Floats, *, scores: Scores) -> tuple[float, float]:
    """The γ for which weights + γ · direction have the highest corpus score, and that score; exact (Och 2003, §5).

    Each candidate's score is a line in γ. The best candidate of a segment changes only where the upper envelope of its
    lines has a corner; between the corners of all segments, the corpus score is constant. γ is the middle of the best
    interval, and 0 if no interval is better than the one around 0.
    """
    slopes = np.where(candidates.exists, candidates.features @ direction, np.inf)
    intercepts = np.where(candidates.exists, candidates.features @ weights, -np.inf)
    rows = np.arange(len(slopes))
    lowest = slopes == slopes.min(axis=1, keepdims=True)
    best = np.where(lowest, intercepts, -np.inf).argmax(axis=1)  # as γ → −∞
    total = candidates.statistics[rows, best].sum(axis=0)
    corners, changes = [], []
    while len(rows):
        slope, intercept = slopes[rows, best][:, None], intercepts[rows, best][:, None]
        steeper = candidates.exists[rows] & (slopes[rows] > slope)
        with np.errstate(invalid="ignore"):
            crossings = np.divide(
                intercept - intercepts[rows], slopes[rows] - slope, out=np.full(steeper.shape, np.inf), where=steeper
            )
        nearest = crossings.min(axis=1, keepdims=True)
        following = np.where(crossings == nearest, slopes[rows], -np.inf).argmax(axis=1)
        goes_on = np.isfinite(nearest[:, 0])
        rows, best, following, nearest = rows[goes_on], best[goes_on], following[goes_on], nearest[goes_on, 0]
        corners.append(nearest)
        changes.append(candidates.statistics[rows, following] - candidates.statistics[rows, best])
        best = following
    gammas = np.concatenate(corners)
    order = np.argsort(gammas, kind="stable")
    sums = np.concatenate([total[None], total + np.cumsum(np.concatenate(changes)[order], axis=0)])
    return _best_interval(gammas[order], scores(sums))


def optimise(
    candidates: Candidates,
    start: Floats,
    *,
    tuned: NDArray[np.bool_],
    scores: Scores,
    random: np.random.Generator,
    directions: int = 4,
    check_stop: Callable[[], None] = lambda: None,
) -> Optimum:
    """The weights at which line searches from `start` converge, along each tuned weight and some random directions."""
    best = Optimum(start, corpus_score(candidates, start, scores=scores))
    places = np.flatnonzero(tuned)
    while True:
        before = best.score
        axes = list(np.eye(len(start))[random.permutation(places)])
        axes += list(random.standard_normal((directions, len(start))) * tuned)
        for axis in axes:
            check_stop()
            gamma, score = line_search(candidates, best.weights, axis, scores=scores)
            if score > best.score + LEAST_GAIN:
                best = Optimum(best.weights + gamma * axis, score)
        if best.score < before + 100 * LEAST_GAIN:
            return best


def _best_interval(corners: Floats, scores: NDArray[Any]) -> tuple[float, float]:
    """The middle of the best interval between `corners` (if tied, nearest to 0; 0 itself if inside), and its score."""
    if not len(corners):
        return 0.0, float(scores[0])
    edges = np.concatenate([[corners[0] - 2 * STEP], corners, [corners[-1] + 2 * STEP]])
    is_interval = np.diff(edges) > 1e-12
    home = int(np.searchsorted(corners, 0.0, side="right"))
    best = float(scores[is_interval].max())
    if is_interval[home] and scores[home] >= best - LEAST_GAIN:
        return 0.0, float(scores[home])
    middles = (edges[1:] + edges[:-1]) / 2
    eligible = np.flatnonzero(is_interval & (scores >= best))
    chosen = eligible[np.abs(middles[eligible]).argmin()]
    return float(middles[chosen]), best
