"""Degenerate translations: loops and implausible lengths, obvious to a reader but often invisible in a score."""

from collections.abc import Sequence
from typing import Literal

Oddity = Literal["loop", "short", "long"]

_REPEATS = 4  # minimum number of consecutive occurrences
_LONGEST_UNIT = 8  # maximum size of the repeated n-gram, in pieces
_RATIO = 4.0
_TOLERANCE = 8  # pieces by which the lengths may differ before their ratio counts


def oddities(source: Sequence[int], target: Sequence[int]) -> tuple[Oddity, ...]:
    """The signs of degeneration in a target, given its source, both in pieces.

    "loop": an n-gram of up to 8 pieces occurs at least 4 times in a row. "short" and "long": one side has more than 4
    times as many pieces as the other, and at least 8 more.
    """
    signs: list[Oddity] = []
    if has_loop(target):
        signs.append("loop")
    if len(source) - len(target) >= _TOLERANCE and len(target) * _RATIO < len(source):
        signs.append("short")
    if len(target) - len(source) >= _TOLERANCE and len(source) * _RATIO < len(target):
        signs.append("long")
    return tuple(signs)


def has_loop(tokens: Sequence[int]) -> bool:
    """Whether a short n-gram is repeated many times in a row, as `oddities` defines a loop."""
    for size in range(1, _LONGEST_UNIT + 1):
        matches = 0
        for index in range(size, len(tokens)):
            matches = matches + 1 if tokens[index] == tokens[index - size] else 0
            if matches >= size * (_REPEATS - 1):
                return True
    return False
