"""Tests whether a token sequence contains all of a set of phrases without overlap."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

Token = int


class WordBoundaries(NamedTuple):
    """Functions that say whether a token starts or ends a word."""

    begins: Callable[[Token], bool]  # whether a token starts a new word whatever precedes it
    ends: Callable[[Token], bool]  # whether any token after this one starts a new word

    def between(self, left: Token, right: Token) -> bool:
        """Whether there is a word boundary between two adjacent tokens."""
        return self.ends(left) or self.begins(right)


def can_share(phrases: Sequence[Sequence[Token]]) -> bool:
    """Whether occurrences of two different phrases can overlap.

    Only then does it matter which phrase a token is assigned to.
    """
    different = {tuple(phrase) for phrase in phrases}
    return any(_overlap(first, second) for first in different for second in different if first != second)


def all_present(tokens: Sequence[Token], phrases: Sequence[Sequence[Token]], *, boundaries: WordBoundaries) -> bool:
    """Whether the text contains all phrases without overlap, each starting at a word boundary.

    After a phrase, the text must end or the next token must start a new word. Dynamic programming over prefixes
    of the text keeps the maximal sets of phrases (as bit masks) that each prefix can contain: a subset of another set
    is never better.
    """
    sequences = [tuple(phrase) for phrase in phrases]
    everything = (1 << len(sequences)) - 1
    counted: list[set[int]] = [{0}]
    for end in range(1, len(tokens) + 1):
        matched = set(counted[-1])
        for number, phrase in enumerate(sequences):
            begin = end - len(phrase)
            if (
                begin >= 0
                and tuple(tokens[begin:end]) == phrase
                and _is_apart(tokens, begin, end, boundaries=boundaries)
            ):
                duplicates = [place for place in range(number) if sequences[place] == phrase]  # matched in order
                before = sum(1 << place for place in duplicates)
                matched |= {
                    subset | 1 << number
                    for subset in counted[begin]
                    if subset & before == before and not subset >> number & 1
                }
        counted.append(
            {
                subset
                for subset in matched
                if not any(subset != superset and subset & superset == subset for superset in matched)
            }
        )
    return everything in counted[-1]


def _is_apart(tokens: Sequence[Token], begin: int, end: int, *, boundaries: WordBoundaries) -> bool:
    """Whether tokens[begin:end] starts and ends at word boundaries."""
    starts_word = begin == 0 or boundaries.between(tokens[begin - 1], tokens[begin])
    return starts_word and (end == len(tokens) or boundaries.begins(tokens[end]))


def _overlap(first: Sequence[Token], second: Sequence[Token]) -> bool:
    """Whether a suffix of `first` is a prefix of `second`, or `first` contains `second`."""
    if any(first[-size:] == second[:size] for size in range(1, min(len(first), len(second)) + 1)):
        return True
    return any(first[index : index + len(second)] == second for index in range(len(first) - len(second) + 1))
