"""Long texts into parts that are short enough, at the ends of sentences where there are some."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

_ENDS = re.compile(r"(?<=[.!?…])[\"'»”’)\]]*\s+|(?<=[。！？])[」』”’）]*")
_SPACES = re.compile(r"\s+")


class LengthProfile(NamedTuple):
    """How long the lines are that a model has learnt from: all but one in a hundred have no more of it."""

    pieces: int
    sentences: int

    @classmethod
    def of(cls, *, pieces: Sequence[int], sentences: Sequence[int]) -> "LengthProfile":
        """Of the numbers of pieces and of sentences that some lines have."""
        return cls(_most(pieces), _most(sentences))


def sentences_in(text: str) -> int:
    """How many there are, as far as their ends can be seen."""
    return sum(1 for _ in _cut(text, _ENDS))


def split_long(text: str, *, fits: Callable[[str], bool], joins: Callable[[str], bool] | None = None) -> list[str]:
    """Parts of the text that fit, as few as a reader from left to right makes; one part where the whole fits.

    A sentence that does not fit is cut between words, and a word that does not, between characters. `joins` says what
    may stand in one part where that is less than what fits; a sentence that fits stays whole all the same.
    """
    joins = joins or fits
    if joins(text):
        return [text]
    parts: list[str] = []
    for piece in _pieces(text, fits=fits):
        if parts and joins(parts[-1] + piece):
            parts[-1] += piece
        else:
            parts.append(piece)
    return [part.strip() for part in parts if part.strip()]


def _pieces(text: str, *, fits: Callable[[str], bool]) -> Iterator[str]:
    """Sentences with what stands behind them, or words, or characters: the largest that fit."""
    for sentence in _cut(text, _ENDS):
        if fits(sentence):
            yield sentence
            continue
        for word in _cut(sentence, _SPACES):
            yield from [word] if fits(word) else word


def _cut(text: str, ends: re.Pattern[str]) -> Iterator[str]:
    """The text in parts, each up to and with one of the ends."""
    start = 0
    for end in ends.finditer(text):
        if end.end() > start:
            yield text[start : end.end()]
            start = end.end()
    if start < len(text):
        yield text[start:]


def _most(counts: Sequence[int]) -> int:
    """The least number that 99 of 100 do not exceed, and 1 at least."""
    return max(1, sorted(counts)[-(-99 * len(counts) // 100) - 1]) if counts else 1
