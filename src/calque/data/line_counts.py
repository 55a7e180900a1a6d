"""Where two files of different length probably stop lining up."""

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NoReturn

from calque.data.lines import file_lines
from calque.errors import DataError

_LIMIT = 1 << 16  # bytes; longer lines count as this long
_CHANCE = 1.0  # how much better moved lines may fit by chance: 0.6 at the most in 800 captions files cut at their end


def refuse_misaligned(source: Path, *, target: Path) -> NoReturn:
    """Raises a DataError with both counts and the first suspect line; of pipes, which are gone, it says less."""
    if not (source.is_file() and target.is_file()):
        raise DataError(
            f"{source} and {target} have not the same number of lines: line n of one must translate line n of the "
            "other; give files instead of pipes to be told where they part"
        )
    (sources, source_mean), (targets, target_mean) = (_measure(path) for path in (source, target))
    ratio = _log(target_mean) - _log(source_mean)
    suspect = suspect_line(source, target=target, shift=sources - targets, ratio=ratio)
    shorter, longer = (target, source) if sources > targets else (source, target)
    if suspect > min(sources, targets):
        where = (
            f"a guess: the lines up to there fit each other, so the end of {shorter} seems to be missing, "
            "or a line near it"
        )
    else:
        where = (
            f"a guess: from there on the lengths of the lines fit better with {longer} moved by "
            f"{abs(sources - targets)}; look for a missing, doubled or broken line there"
        )
    raise DataError(
        f"{source} has {sources:,} lines, {target} has {targets:,}: line n of one must translate line n of the other\n"
        f"  first suspect line: {suspect:,} ({where})"
    )


def suspect_line(source: Path, *, target: Path, shift: int, ratio: float) -> int:
    """The line k at which "aligned before k, moved by `shift` from k on" explains the lengths best.

    A line's cost is |log(target length / source length) - ratio|. The best k is the lowest point of the running sum of
    (cost as aligned - cost as moved), seen from the end: two streams, no memory. Where lines moved hardly fit better,
    the shorter file ends too early: k is the line behind its last.
    """
    longer, shorter = (source, target) if shift > 0 else (target, source)
    sign = 1 if shift > 0 else -1
    pairs = zip(_lengths(shorter), _lengths(longer), islice(_lengths(longer), abs(shift), None), strict=False)
    best, lowest, total, line = 1, 0.0, 0.0, 0
    for line, (short, aligned, moved) in enumerate(pairs, start=1):
        total += abs(sign * (_log(short) - _log(aligned)) - ratio) - abs(sign * (_log(short) - _log(moved)) - ratio)
        if total <= lowest:
            best, lowest = line + 1, total
    return best if total - lowest > _CHANCE else line + 1


def _measure(path: Path) -> tuple[int, float]:
    """How many lines, and how long they are on average."""
    lines = size = 0
    for length in _lengths(path):
        lines, size = lines + 1, size + length
    return lines, size / max(1, lines)


def _lengths(path: Path) -> Iterator[int]:
    return (len(line) for line in file_lines(path, limit=_LIMIT))


def _log(length: float) -> float:
    return math.log(length + 1)
