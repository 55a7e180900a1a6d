"""Long texts into parts that are short enough, at the ends of sentences where there are some."""

import re
from collections.abc import Callable, Iterator

_ENDS = re.compile(r"(?<=[.!?…])[\"'»”’)\]]*\s+|(?<=[。！？])[」』”’）]*")
_SPACES = re.compile(r"\s+")


def split_long(text: str, *, fits: Callable[[str], bool]) -> list[str]:
    """Parts of the text that fit, as few as a reader from left to right makes; one part where the whole fits.

    A sentence that does not fit is cut between words, and a word that does not, between characters.
    """
    if fits(text):
        return [text]
    parts: list[str] = []
    for piece in _pieces(text, fits=fits):
        if parts and fits(parts[-1] + piece):
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
