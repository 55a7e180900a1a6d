"""Whether the lines of a corpus line up: their lengths are kept aside while it is read, and what they show is said."""

from tempfile import TemporaryFile
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from calque.data.corpora import Corpus, Shifted, paths
from calque.data.shifts import LONGEST, Shift, find_shifts

Array = NDArray[Any]

_SHOWN = 5


class Doubts(NamedTuple):
    """What the lengths of a corpus's lines say against it."""

    problems: list[str]
    """What is refused."""
    warnings: list[str]


class LineLengths:
    """The lengths of both sides of every line, in a file without a name: memory does not grow with the corpus."""

    def __init__(self) -> None:
        self._file = TemporaryFile()  # noqa: SIM115 - closed when nothing holds this
        finalize(self, self._file.close)
        self._lines = 0

    def add(self, lengths: Array) -> None:
        """Appends the lengths [lines,2] of some more lines."""
        self._file.write(lengths.astype("<u2").tobytes())
        self._lines += len(lengths)

    def doubts(self, corpus: Corpus, *, shifted: Shifted) -> Doubts:
        """Every stretch that is shifted, in words; the first few of many."""
        if not self._lines:
            return Doubts([], [])
        self._file.flush()
        lengths: Array = np.memmap(self._file, dtype="<u2", mode="r", shape=(self._lines, 2))
        found = find_shifts(lengths)
        refused = [shift for shift in found if shift.is_proven and shifted == "fail"]
        warned = [shift for shift in found if shift not in refused]
        hint = ", or set data.shifted=warn to take all as it is"
        return Doubts(
            _told(refused, corpus, lines=self._lines, hint=hint), _told(warned, corpus, lines=self._lines, hint="")
        )


def by_line(source: Array, *, target: Array, lines: Array, first: int, count: int) -> Array:
    """The lengths [count,2] of `count` lines from `first` on: of the pairs that are there, 0 of other lines."""
    lengths = np.zeros((count, 2), dtype=np.uint16)
    lengths[lines - first] = np.minimum(np.stack([source, target], axis=1), LONGEST)
    return lengths


def _told(shifts: list[Shift], corpus: Corpus, *, lines: int, hint: str) -> list[str]:
    if not shifts:
        return []
    names = " + ".join(str(path) for key, path in paths(corpus).items() if key != "alignments")
    said = [f"{names}: source and target do not line up, by the lengths of their lines:"]
    said += [_describe(shift, lines=lines) for shift in shifts[:_SHOWN]]
    said += [f"  … and {len(shifts) - _SHOWN:,} more such stretches"] if len(shifts) > _SHOWN else []
    if all(shift.is_proven for shift in shifts):
        said.append(f"  other lines fit as they stand; look for one that is missing, doubled or broken{hint}")
    else:
        said.append("  no lines fit as they stand; that is right where each target is meant for another line's source")
    return ["\n".join(said)]


def _describe(shift: Shift, *, lines: int) -> str:
    count = abs(shift.by)
    much = "1 line" if count == 1 else f"{count} lines"
    end = "the end" if shift.last == lines else f"about line {shift.last:,}"
    begin = "line 1" if shift.first == 1 else f"about line {shift.first:,}"
    late, sign = ("late", "+") if shift.by > 0 else ("early", "-")
    return f"  from {begin} to {end} targets come {much} too {late}: source line n fits target line n {sign} {count}"
