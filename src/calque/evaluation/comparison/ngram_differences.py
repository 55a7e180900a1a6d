"""The n-grams that one system gets right, invents or misses more often than another (Akabe et al. 2014)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from calque.evaluation.comparison.words import Ngram, Words, ngram_counts

Kind = Literal["correct", "excess", "missing"]
KINDS: tuple[Kind, ...] = ("correct", "excess", "missing")
SHOWN = 25
SMOOTHING = 1.0


class NgramCounts(NamedTuple):
    """N-grams of a system's hypotheses and references, counted as correct, in excess or missing."""

    correct: Counter[Ngram]
    """N-grams of both hypothesis and reference, counted sentence by sentence."""
    excess: Counter[Ngram]
    """N-grams that occur more often in the hypothesis than in its reference."""
    missing: Counter[Ngram]
    """N-grams that occur more often in the reference than in the hypothesis."""


def count_ngrams(hypotheses: Sequence[Words], references: Sequence[Words]) -> NgramCounts:
    """Counts correct, excess and missing n-grams over all sentences."""
    counts = NgramCounts(Counter(), Counter(), Counter())
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        produced, expected = ngram_counts(hypothesis), ngram_counts(reference)
        counts.correct.update(produced & expected)
        counts.excess.update(produced - expected)
        counts.missing.update(expected - produced)
    return counts


def salient(
    first: Mapping[Ngram, int], second: Mapping[Ngram, int], *, shown: int = SHOWN, smoothing: float = SMOOTHING
) -> list[dict[str, Any]]:
    """The n-grams that `first` has more often than `second`, the clearest differences first.

    They are ordered by (a + α) / (a + b + 2 α), the smoothed share of the first system's occurrences, where a and b are
    the counts of the two systems. An n-gram is left out if a longer one that contains it has the same counts.
    """

    def share(ngram: Ngram) -> float:
        a, b = first.get(ngram, 0), second.get(ngram, 0)
        return (a + smoothing) / (a + b + 2 * smoothing)

    more = [ngram for ngram, count in first.items() if count > second.get(ngram, 0)]
    more.sort(key=lambda ngram: (-share(ngram), -len(ngram), ngram))
    rows: list[dict[str, Any]] = []
    shown_ngrams: list[Ngram] = []
    for ngram in more:
        counts = first[ngram], second.get(ngram, 0)
        if any(_contains(other, ngram) and (first[other], second.get(other, 0)) == counts for other in shown_ngrams):
            continue
        shown_ngrams.append(ngram)
        rows.append({"words": list(ngram), "counts": list(counts), "share": round(share(ngram), 4)})
        if len(rows) == shown:
            break
    return rows


def compare_ngrams(first: NgramCounts, second: NgramCounts, *, shown: int = SHOWN) -> dict[str, Any]:
    """For correct, excess and missing n-grams, those that either system has more often than the other."""
    return {
        kind: {
            "first": salient(getattr(first, kind), getattr(second, kind), shown=shown),
            "second": salient(getattr(second, kind), getattr(first, kind), shown=shown),
        }
        for kind in KINDS
    }


def _contains(ngram: Ngram, part: Ngram) -> bool:
    size = len(part)
    return size < len(ngram) and any(ngram[start : start + size] == part for start in range(len(ngram) - size + 1))
