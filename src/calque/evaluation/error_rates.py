"""Error rates by edit distance, for transcripts (with confidence intervals) and sequences with several references.

WER = (S + D + I) / words of the references, over all recordings together; CER is the same over characters, spaces
included. For pronunciations, the rates of symbols and sequences are the phoneme error rate (PER) and the word error
rate (WER).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.errors import DataError
from calque.evaluation.intervals import Interval, percentiles

SAMPLES = 1000  # of the bootstrap
Symbols = Sequence[str]


class Errors(NamedTuple):
    """The edits that turn a reference into a hypothesis, and the length of the reference."""

    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0
    length: int = 0

    @property
    def edits(self) -> int:
        return self.substitutions + self.insertions + self.deletions

    @property
    def rate(self) -> float:
        """Edits per unit of the reference. If the reference is empty: 0 without edits, otherwise infinity."""
        return self.edits / self.length if self.length else (float("inf") if self.edits else 0.0)

    def __add__(self, other: object) -> "Errors":
        assert isinstance(other, Errors)
        return Errors(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class TranscriptErrors(NamedTuple):
    """Word and character errors of a test set, with the confidence intervals of both rates."""

    words: Errors
    characters: Errors
    words_interval: Interval
    characters_interval: Interval


class ErrorRates(NamedTuple):
    """Error rates in per cent."""

    symbols: float  # edits per reference symbol; above 100 if there are more edits than symbols
    sequences: float  # sequences that equal none of their references


def edit_errors(reference: Symbols, hypothesis: Symbols) -> Errors:
    """The errors in a shortest sequence of edits (Levenshtein); ties go to the one with the most substitutions.

    >>> edit_errors("a b c d".split(), "a x c".split())
    Errors(substitutions=1, insertions=0, deletions=1, length=4)
    """
    before = [(column, 0, column, 0) for column in range(len(hypothesis) + 1)]  # (edits, S, I, D)
    for row, expected in enumerate(reference, start=1):
        current = [(row, 0, 0, row)]
        for column, found in enumerate(hypothesis, start=1):
            edits, s, i, d = before[column - 1]
            best = (edits, s, i, d) if expected == found else (edits + 1, s + 1, i, d)
            edits, s, i, d = before[column]
            if edits + 1 < best[0]:
                best = (edits + 1, s, i, d + 1)
            edits, s, i, d = current[column - 1]
            if edits + 1 < best[0]:
                best = (edits + 1, s, i + 1, d)
            current.append(best)
        before = current
    _, s, i, d = before[-1]
    return Errors(s, i, d, len(reference))


def word_errors(reference: str, hypothesis: str) -> Errors:
    """The word errors of a hypothesis; words are separated by white space."""
    return edit_errors(reference.split(), hypothesis.split())


def character_errors(reference: str, hypothesis: str) -> Errors:
    """The character errors of a hypothesis; a run of white space counts as one space."""
    return edit_errors(" ".join(reference.split()), " ".join(hypothesis.split()))


def transcript_errors(references: Sequence[str], hypotheses: Sequence[str], *, seed: int = 1) -> TranscriptErrors:
    """WER and CER of a test set, with 95 % confidence intervals by the bootstrap over recordings."""
    pairs = list(zip(references, hypotheses, strict=True))
    words = [word_errors(*pair) for pair in pairs]
    characters = [character_errors(*pair) for pair in pairs]
    return TranscriptErrors(
        sum(words, Errors()),
        sum(characters, Errors()),
        bootstrap_interval(words, seed=seed),
        bootstrap_interval(characters, seed=seed),
    )


def bootstrap_interval(errors: Sequence[Errors], *, samples: int = SAMPLES, seed: int = 1) -> Interval:
    """The error rate with its confidence interval, by the bootstrap over recordings (Bisani and Ney 2004)."""
    counts: NDArray[np.float64] = np.array([[item.edits, item.length] for item in errors], dtype=float).reshape(-1, 2)
    rate = sum(errors, Errors()).rate
    if not counts[:, 1].sum():
        return Interval(rate, float("nan"), float("nan"))
    generator = np.random.default_rng(seed)
    draws = generator.integers(len(counts), size=(samples, len(counts)))
    totals = counts[draws].sum(axis=1)
    return Interval(rate, *percentiles(totals[:, 0] / np.maximum(1, totals[:, 1])))


def error_rates(hypotheses: Sequence[Symbols], references: Sequence[Sequence[Symbols]]) -> ErrorRates:
    """The error rates of hypotheses, each compared with the closest of its references.

    The closest reference is the one with the fewest edits and, among several, the longest.

    >>> error_rates([["AH", "B"]], [[["AH", "P"], ["AH", "B", "B", "B"]]])
    ErrorRates(symbols=50.0, sequences=100.0)
    """
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} outputs but references for {len(references)}: the numbers must be equal")
    if not references or not all(references):
        raise DataError("nothing to evaluate: every output needs at least one reference")
    closest = [
        min((edit_errors(choice, hypothesis) for choice in choices), key=lambda errors: (errors.edits, -errors.length))
        for hypothesis, choices in zip(hypotheses, references, strict=True)
    ]
    total = sum(closest, Errors())
    symbols = 100 * total.edits / total.length if total.length else float(100 * bool(total.edits))
    return ErrorRates(symbols, 100 * sum(errors.edits > 0 for errors in closest) / len(closest))
