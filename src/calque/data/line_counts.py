"""The error for files with different numbers of lines, with the line at which the alignment probably breaks."""

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NoReturn

from calque.data.lines import file_lines
from calque.errors import DataError

_LIMIT = 1 << 16  # bytes; longer lines count as this long
_CHANCE = 1.0  # chance gain of shifting lines; at most 0.6 in 800 caption files truncated at the end


def refuse_misaligned(source: Path, *, target: Path) -> NoReturn:
    """Raises a DataError with both line counts and the first suspect line.

    For pipes, which cannot be read again, the error contains neither the counts nor the line.
    """
    if not (source.is_file() and target.is_file()):
        raise DataError(
            f"{source} and {target} have different numbers of lines: line n of one must translate line n of the "
            "other; pass files instead of pipes to see where the alignment breaks"
        )
    (sources, source_mean), (targets, target_mean) = (_measure(path) for path in (source, target))
    ratio = _log(target_mean) - _log(source_mean)
    suspect = suspect_line(source, target=target, shift=sources - targets, ratio=ratio)
    shorter, longer = (target, source) if sources > targets else (source, target)
    if suspect > min(sources, targets):
        guess = (
            f"a guess: all lines before it seem to match, so the end of {shorter}, or a line near the end, is probably "
            "missing"
        )
    else:
        guess = (
            f"a guess: from there on, line lengths match better with {longer} shifted by "
            f"{abs(sources - targets)}; look for a missing, duplicated or broken line there"
        )
    raise DataError(
        f"{source} has {sources:,} lines, {target} has {targets:,}: line n of one must translate line n of the other\n"
        f"  first suspect line: {suspect:,} ({guess})"
    )


def suspect_line(source: Path, *, target: Path, shift: int, ratio: float) -> int:
    """The line k for which "aligned before k, shifted by `shift` from k on" explains the lengths best.

    The cost of a line is |log(target length / source length) - ratio|, where `ratio` is the log ratio of the mean
    lengths. The best k is the last minimum of the running sum of (cost if aligned - cost if shifted), which takes one
    pass and constant memory. If shifting hardly lowers the cost, the shorter file is assumed to be truncated: k is then
    the line after its last one.
    """
    longer, shorter = (source, target) if shift > 0 else (target, source)
    sign = 1 if shift > 0 else -1
    pairs = zip(_lengths(shorter), _lengths(longer), islice(_lengths(longer), abs(shift), None), strict=False)
    best, lowest, total, line = 1, 0.0, 0.0, 0
    for line, (short, aligned, shifted) in enumerate(pairs, start=1):
        total += abs(sign * (_log(short) - _log(aligned)) - ratio) - abs(sign * (_log(short) - _log(shifted)) - ratio)
        if total <= lowest:
            best, lowest = line + 1, total
    return best if total - lowest > _CHANCE else line + 1


def _measure(path: Path) -> tuple[int, float]:
    """The number of lines of a file, and their mean length in bytes."""
    lines = size = 0
    for length in _lengths(path):
        lines, size = lines + 1, size + length
    return lines, size / max(1, lines)


def _lengths(path: Path) -> Iterator[int]:
    return (len(line) for line in file_lines(path, limit=_LIMIT))


def _log(length: float) -> float:
    return math.log(length + 1)
