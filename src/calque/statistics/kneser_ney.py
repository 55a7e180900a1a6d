"""Modified Kneser-Ney smoothing, interpolated (Kneser and Ney 1995; Chen and Goodman 1998, §3).

    p(w | h) = (a(h w) − D(a(h w))) / Σᵥ a(h v) + γ(h) · p(w | h′)          γ(h) = Σᵥ D(a(h v)) / Σᵥ a(h v)

a is the number of occurrences for the highest order, and for every lower order the number of different words to the
left: a word that follows many words is likely to follow a new one too. h′ is the history without its first word;
unigrams are interpolated with the uniform distribution. An n-gram that begins with the begin mark of a line has no word
to its left: a is the number of its occurrences. D(a) is D₁, D₂ or, from a = 3 on, D₃; per order, with n₁ … n₄ the
numbers of n-grams whose count is 1 … 4,

    Y = n₁ / (n₁ + 2 n₂)      D₁ = 1 − 2 Y n₂/n₁      D₂ = 2 − 3 Y n₃/n₂      D₃ = 3 − 4 Y n₄/n₃
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.errors import DataError
from calque.statistics.ngram_counts import Integers, NgramCounts
from calque.statistics.ngram_tables import NEVER, Floats, NgramTables


class Discounts(NamedTuple):
    """The discounts that are subtracted from counts of 1, of 2, and of 3 or more."""

    one: float
    two: float
    more: float


FALLBACK = Discounts(0.5, 1.0, 1.5)  # KenLM's, for orders with too few different counts


class Estimate(NamedTuple):
    """An estimated n-gram model: its back-off tables, the discounts of each order, and remarks for the user."""

    tables: NgramTables
    discounts: list[Discounts]  # per order
    remarks: list[str]


def kneser_ney(counts: NgramCounts, *, never: Sequence[int], prune: Sequence[int] = ()) -> Estimate:
    """The back-off tables of a model with modified Kneser-Ney smoothing.   Law: p(· | h) sums to 1 for every history h.

    The words `never` (padding, the begin mark) are not predicted: they have probability 10⁻⁹⁹.

    `prune` lists a threshold per order from 2 on: n-grams that occur at most that often are dropped. The last threshold
    holds for all higher orders. Discounts and counts are those before pruning, and the probability mass of dropped
    n-grams is added to γ.
    """
    size = counts.vocabulary_size
    adjusted = adjusted_counts(counts)
    predicted = np.ones(size, dtype=np.bool_)
    predicted[list(never)] = False
    adjusted[0] = np.where(predicted, adjusted[0], 0)
    total = int(adjusted[0].sum())
    if not total:
        raise DataError("the corpus has no text to estimate an n-gram model from")
    estimated = [discounts_of(of_order) for of_order in adjusted]
    few = [f"{length}-grams" for length, discounts in enumerate(estimated, start=1) if discounts is None]
    remarks = [
        f"there are too few different counts of {', '.join(few)} to estimate discounts; KenLM's fallback "
        f"({FALLBACK.one}, {FALLBACK.two}, {FALLBACK.more}) is used"
    ] * bool(few)
    discounts = [FALLBACK if of_order is None else of_order for of_order in estimated]

    discounted = adjusted[0] - _discounts(adjusted[0], discounts[0])
    uniform = (total - discounted.sum()) / total / predicted.sum()
    probabilities = np.where(predicted, discounted / total + uniform, 0.0)
    tables = NgramTables(size, [counts.keys[0]], [_log10(probabilities)], [])
    kept_rows: Integers = np.arange(size)  # the row of each n-gram after pruning; −1 if it is pruned
    for level in range(1, counts.order):
        prefixes, words = np.divmod(counts.keys[level], size)
        least = prune[min(level, len(prune)) - 1] if prune else 0
        kept = counts.occurrences[level] > least
        discounted = np.where(kept, adjusted[level] - _discounts(adjusted[level], discounts[level]), 0.0)
        rows = len(counts.keys[level - 1])
        totals = np.bincount(prefixes, weights=adjusted[level], minlength=rows)
        remaining = totals - np.bincount(prefixes, weights=discounted, minlength=rows)
        weights = np.divide(remaining, totals, out=np.ones(rows), where=totals > 0)
        seen = np.divide(discounted, totals[prefixes])
        probabilities = seen + weights[prefixes] * probabilities[counts.suffixes[level]]
        tables.backoffs.append(np.log10(weights[kept_rows >= 0]))
        tables.keys.append(kept_rows[prefixes[kept]] * size + words[kept])
        tables.log_probs.append(_log10(probabilities[kept]))
        kept_rows = np.where(kept, np.cumsum(kept) - 1, -1)
    return Estimate(tables, discounts, remarks)


def adjusted_counts(counts: NgramCounts) -> list[Integers]:
    """The counts a of each order: occurrences for the highest, the number of words to the left for all others."""
    adjusted = [
        np.bincount(suffixes, minlength=len(openings)) + openings
        for suffixes, openings in zip(counts.suffixes[1:], counts.openings[:-1], strict=True)
    ]
    return [*adjusted, counts.occurrences[-1].copy()]


def discounts_of(counts: Integers) -> Discounts | None:
    """The discounts of an order; None if its counts are too few, or too unusual, to estimate them."""
    n1, n2, n3, n4 = (int((counts == count).sum()) for count in range(1, 5))
    if not (n1 and n2 and n3):
        return None
    y = n1 / (n1 + 2 * n2)
    discounts = Discounts(1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    in_range = all(0 < discount <= count for count, discount in enumerate(discounts, start=1))
    return discounts if in_range else None


def _discounts(counts: Integers, discounts: Discounts) -> Floats:
    """The discount to subtract from each count: 0 for a count of 0, otherwise that of min(count, 3)."""
    by_count: NDArray[np.float64] = np.array([0.0, *discounts])
    return by_count[np.minimum(counts, 3)]


def _log10(probabilities: Floats) -> Floats:
    logs: Floats = np.log10(np.maximum(probabilities, 10.0**NEVER))
    return logs
