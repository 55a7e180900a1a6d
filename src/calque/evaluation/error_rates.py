"""Error rates by edit distance, for transcripts (with confidence intervals) and sequences with several references.

WER = (S + D + I) / words of the references, over all recordings together; CER is the same over characters, spaces
included. For pronunciations, the error rate of symbols is the phoneme error rate (PER), and that of whole sequences is
the word error rate (WER).
"""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.errors import DataError
from calque.evaluation.intervals import Interval, percentiles

SAMPLES = 1000  # of the bootstrap
TOGETHER = 1 << 15  # cells of the rows of tables that are computed at once
Symbols = Sequence[str]
Array = NDArray[np.int64]


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
        """Edits per unit of the reference; for an empty reference, the number of edits, as in jiwer."""
        return self.edits / max(1, self.length)

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
    """Error rates of symbols and of whole sequences, in per cent."""

    symbols: float  # edits per reference symbol; above 100 if there are more edits than symbols
    sequences: float  # sequences that equal none of their references


def edit_errors(reference: Symbols, hypothesis: Symbols) -> Errors:
    """The errors in a shortest sequence of edits (Levenshtein); ties go to the one with the most substitutions.

    >>> edit_errors("a b c d".split(), "a x c".split())
    Errors(substitutions=1, insertions=0, deletions=1, length=4)
    """
    return all_edit_errors([reference], [hypothesis])[0]


def all_edit_errors(references: Sequence[Symbols], hypotheses: Sequence[Symbols]) -> list[Errors]:
    """`edit_errors` of each pair; many pairs of similar length are compared at once."""
    pairs = [_differing(*pair) for pair in zip(references, hypotheses, strict=True)]
    lengths: Array = np.array([[len(first), len(second)] for first, second in pairs]).reshape(-1, 2)
    edits, substitutions = (np.zeros(len(pairs), dtype=np.int64) for _ in range(2))
    rows = np.lexsort((lengths[:, 0], lengths[:, 1]))
    at = 0
    while at < len(rows):
        # the last pair that fits is the widest
        fits = np.arange(1, len(rows) - at + 1) * (lengths[rows[at:], 1] + 1) <= TOGETHER
        block = rows[at : at + max(1, int(fits.sum()))]
        edits[block], substitutions[block] = _edits([pairs[row] for row in block], lengths[block])
        at += len(block)
    insertions = (edits - substitutions + lengths[:, 1] - lengths[:, 0]) // 2
    deletions = edits - substitutions - insertions
    counts = zip(substitutions.tolist(), insertions.tolist(), deletions.tolist(), references, strict=True)
    return [Errors(s, i, d, len(reference)) for s, i, d, reference in counts]


def _differing(first: Symbols, second: Symbols) -> tuple[Symbols, Symbols]:
    """Both sequences without their common beginning and end, which a shortest sequence of edits need not change."""
    shortest = min(len(first), len(second))
    start = next((at for at in range(shortest) if first[at] != second[at]), shortest)
    ends = range(1, shortest - start + 1)
    end = next((at for at in ends if first[-at] != second[-at]), shortest - start + 1) - 1
    return first[start : len(first) - end], second[start : len(second) - end]


def _edits(pairs: Sequence[tuple[Symbols, Symbols]], lengths: Array) -> tuple[Array, Array]:
    """For P pairs of reference and hypothesis, the number of edits and of substitutions among them, [P] each.

    Row i of Levenshtein's table is computed from row i − 1, for all pairs at once. A cell of the table holds
    M · edits − substitutions, whose minimum has the fewest edits and, among those, the most substitutions; M is larger
    than any number of substitutions. Insertions move along a row: cell j is the minimum over k ≤ j of
    dₖ + M (j − k), where dₖ is cell k before insertions. This is M j plus the running minimum of dₖ − M k.
    """
    numbers: dict[str, int] = {}
    width, height = int(lengths[:, 1].max(initial=0)), int(lengths[:, 0].max(initial=0))
    first, second = np.full((len(pairs), height), -1), np.full((len(pairs), width), -1)
    for row, sides in enumerate(pairs):
        for ids, side in zip((first, second), sides, strict=True):
            ids[row, : len(side)] = [numbers.setdefault(symbol, len(numbers)) for symbol in side]
    m = min(width, height) + 1
    inserted = m * np.arange(width + 1)
    table = np.tile(inserted, (len(pairs), 1))  # of an empty reference
    found = table[np.arange(len(pairs)), lengths[:, 1]]
    for at in range(height):
        above = table + m
        above[:, 1:] = np.minimum(above[:, 1:], table[:, :-1] + np.where(second == first[:, at, None], 0, m - 1))
        table = np.minimum.accumulate(above - inserted, axis=1) + inserted
        is_last = lengths[:, 0] == at + 1
        found[is_last] = table[is_last, lengths[is_last, 1]]
    edits = -(-found // m)
    return edits, edits * m - found


def word_errors(reference: str, hypothesis: str) -> Errors:
    """The word errors of a hypothesis; words are separated by white space."""
    return all_word_errors([reference], [hypothesis])[0]


def character_errors(reference: str, hypothesis: str) -> Errors:
    """The character errors of a hypothesis; a run of white space counts as one space."""
    return all_character_errors([reference], [hypothesis])[0]


def all_word_errors(references: Sequence[str], hypotheses: Sequence[str]) -> list[Errors]:
    """`word_errors` of each pair."""
    return all_edit_errors(*([text.split() for text in side] for side in (references, hypotheses)))


def all_character_errors(references: Sequence[str], hypotheses: Sequence[str]) -> list[Errors]:
    """`character_errors` of each pair."""
    return all_edit_errors(*([" ".join(text.split()) for text in side] for side in (references, hypotheses)))


def transcript_errors(references: Sequence[str], hypotheses: Sequence[str], *, seed: int = 1) -> TranscriptErrors:
    """WER and CER of a test set, with 95 % confidence intervals by the bootstrap over recordings."""
    if not references:
        raise DataError("nothing to evaluate: the test set has no recordings")
    words, characters = all_word_errors(references, hypotheses), all_character_errors(references, hypotheses)
    return TranscriptErrors(
        sum(words, Errors()),
        sum(characters, Errors()),
        bootstrap_interval(words, seed=seed),
        bootstrap_interval(characters, seed=seed),
    )


def bootstrap_interval(errors: Sequence[Errors], *, samples: int = SAMPLES, seed: int = 1) -> Interval:
    """The error rate with its confidence interval, by the bootstrap over recordings (Bisani and Ney 2004)."""
    counts: NDArray[np.float64] = np.array([[item.edits, item.length] for item in errors], dtype=float).reshape(-1, 2)
    generator = np.random.default_rng(seed)
    draws = generator.integers(len(counts), size=(samples, len(counts)))
    totals = counts[draws].sum(axis=1)
    return Interval(sum(errors, Errors()).rate, *percentiles(rates_of(totals)))


def rates_of(totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """The error rates [N], given edits and lengths of references [N,2]: `Errors.rate` of each row."""
    rates: NDArray[np.float64] = totals[:, 0] / np.maximum(1, totals[:, 1])
    return rates


def error_rates(hypotheses: Sequence[Symbols], references: Sequence[Sequence[Symbols]]) -> ErrorRates:
    """The error rates of hypotheses, each compared with the closest of its references.

    The closest reference is the one with the fewest edits and, among several, the longest.

    >>> error_rates([["AH", "B"]], [[["AH", "P"], ["AH", "B", "B", "B"]]])
    ErrorRates(symbols=50.0, sequences=100.0)
    """
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses)} outputs but references for {len(references)} outputs: the numbers must be equal"
        )
    if not references or not all(references):
        raise DataError("there must be at least one output to evaluate, and every output needs at least one reference")
    compared = [
        (choice, hypothesis) for hypothesis, choices in zip(hypotheses, references, strict=True) for choice in choices
    ]
    errors_of = iter(all_edit_errors([choice for choice, _ in compared], [hypothesis for _, hypothesis in compared]))
    closest = [
        min(islice(errors_of, len(choices)), key=lambda errors: (errors.edits, -errors.length))
        for choices in references
    ]
    return ErrorRates(
        100 * sum(closest, Errors()).rate, 100 * sum(errors.edits > 0 for errors in closest) / len(closest)
    )
