"""Error rates of sequences against one or several references: edits per symbol, and wrong sequences.

For pronunciations these are the phoneme error rate (PER) and the word error rate (WER); for transcripts, sequences of
words or characters, the word or character error rate.
"""

from collections.abc import Sequence
from typing import NamedTuple

from calque.errors import DataError

Symbols = Sequence[str]


class ErrorRates(NamedTuple):
    """Error rates in per cent."""

    symbols: float  # edits per reference symbol; above 100 if there are more edits than symbols
    sequences: float  # sequences that equal none of their references


def error_rates(hypotheses: Sequence[Symbols], references: Sequence[Sequence[Symbols]]) -> ErrorRates:
    """The error rates of hypotheses, each compared with the closest of its references.

    Of several references, the one with the fewest edits counts, and among those the longest.

    >>> error_rates([["AH", "B"]], [[["AH", "P"], ["AH", "B", "B", "B"]]])
    ErrorRates(symbols=50.0, sequences=100.0)
    """
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} outputs but references for {len(references)}: the numbers must be equal")
    if not references or not all(references):
        raise DataError("nothing to evaluate: every output needs at least one reference")
    edits = symbols = wrong = 0
    for hypothesis, choices in zip(hypotheses, references, strict=True):
        distance, length = min((edit_distance(hypothesis, choice), -len(choice)) for choice in choices)
        edits, symbols, wrong = edits + distance, symbols - length, wrong + (distance > 0)
    rate = 100 * edits / symbols if symbols else float(100 * bool(edits))
    return ErrorRates(rate, 100 * wrong / len(hypotheses))


def edit_distance(first: Symbols, second: Symbols) -> int:
    """The fewest insertions, deletions and substitutions of symbols that turn one sequence into the other.

    >>> edit_distance("kitten", "sitting")
    3
    """
    previous = list(range(len(second) + 1))
    for row, symbol in enumerate(first, start=1):
        current = [row]
        for column, other in enumerate(second, start=1):
            substituted = previous[column - 1] + (symbol != other)
            current.append(min(previous[column] + 1, current[-1] + 1, substituted))
        previous = current
    return previous[-1]
