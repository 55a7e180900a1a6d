"""Splitting of long texts into parts that fit a model, preferably at sentence boundaries."""

import re
from collections.abc import Callable, Iterator

_ENDS = re.compile(r"(?<=[.!?…])[\"'»”’)\]]*\s+|(?<=[。！？])[」』”’）]*")
_SPACES = re.compile(r"\s+")


def sentences_in(text: str) -> int:
    """The number of sentences in a text, judging by the punctuation at their ends."""
    return sum(1 for _ in _split_after(text, _ENDS))


def split_long(text: str, *, fits: Callable[[str], bool], joins: Callable[[str], bool] | None = None) -> list[str]:
    """Splits a text into parts, filled greedily from left to right, preferably between sentences.

    A sentence that does not satisfy `fits` is split between words, and such a word between characters. Neighbouring
    sentences, words or characters are then joined into one part as long as it satisfies `joins`, by default `fits`.
    """
    joins = joins or fits
    if joins(text):
        return [text]
    parts: list[str] = []
    for unit in _units(text, fits=fits):
        if parts and joins(parts[-1] + unit):
            parts[-1] += unit
        else:
            parts.append(unit)
    return [part.strip() for part in parts if part.strip()]


def _units(text: str, *, fits: Callable[[str], bool]) -> Iterator[str]:
    """Yields the sentences of a text; splits a sentence that does not fit into words, and such a word into characters.

    Each sentence or word includes the spaces after it.
    """
    for sentence in _split_after(text, _ENDS):
        if fits(sentence):
            yield sentence
            continue
        for word in _split_after(sentence, _SPACES):
            yield from [word] if fits(word) else word


def _split_after(text: str, ends: re.Pattern[str]) -> Iterator[str]:
    """Yields the parts of the text, which is split after every match of `ends`."""
    start = 0
    for match in ends.finditer(text):
        if match.end() > start:
            yield text[start : match.end()]
            start = match.end()
    if start < len(text):
        yield text[start:]
