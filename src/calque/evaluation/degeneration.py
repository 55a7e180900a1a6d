"""Signs that a translation went wrong, which a reader would see at once and a score may not."""

from collections.abc import Sequence
from typing import Literal

Oddity = Literal["loop", "short", "long"]

_REPEATS = 4  # times in a row
_LONGEST = 8  # pieces of what is repeated
_RATIO = 4.0
_FREE = 8  # pieces by which lengths may differ before their ratio counts


def oddities(source: Sequence[int], target: Sequence[int]) -> tuple[Oddity, ...]:
    """What is odd about a target, in pieces, given its source.

    loop: up to 8 pieces stand 4 times or more in a row; short, long: 4 times fewer or more pieces than the source's,
    and at least 8 fewer or more.
    """
    found: list[Oddity] = []
    if loops(target):
        found.append("loop")
    if len(source) - len(target) >= _FREE and len(target) * _RATIO < len(source):
        found.append("short")
    if len(target) - len(source) >= _FREE and len(source) * _RATIO < len(target):
        found.append("long")
    return tuple(found)


def loops(tokens: Sequence[int]) -> bool:
    """Whether some pieces stand many times in a row."""
    for size in range(1, _LONGEST + 1):
        same = 0
        for place in range(size, len(tokens)):
            same = same + 1 if tokens[place] == tokens[place - size] else 0
            if same >= size * (_REPEATS - 1):
                return True
    return False
