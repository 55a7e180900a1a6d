"""Stretches in which line n of one side belongs to line n + k of the other, found in the lengths of the lines.

Lengths become normal scores a (source) and b (target), of mean 0 and variance 1. With ρ, the correlation of lines that
belong together, a Gaussian pair says how much likelier it is that line i belongs to target line i + k than to i:

    c_k(i) = ρ/(1 − ρ²) · [a_i (b_{i+k} − b_i) − ρ/2 (b_{i+k}² − b_i²)]

The path k(i) with the largest sum of c, less a price for each change of k, is found over cells of lines (Viterbi), its
changes are then placed to the line. What the path proposes must hold by itself: its sum stands many standard deviations
above 0, and the lengths correlate at k and much less at 0. So lengths that say little, sorted, repeated or equal ones
give nothing.
"""

from collections.abc import Iterator
from math import sqrt
from statistics import NormalDist
from tempfile import TemporaryFile
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from calque.data.corpora import Corpus, Shifted, paths

Array = NDArray[Any]

LONGEST = 65_535
"""Longer texts count as this long."""

_REACH = 10  # lines
_CELL = 32  # lines
_CHUNK = 1 << 14  # lines, a multiple of a cell
_PART = 1 << 10  # lines from which one correlation is taken
_NEAR = 8  # lines whose neighbours may say the same
_PRICE = 20.0  # of a change of k, in nats
_CLIP = 4.0  # nats a line may say
_SIGNIFICANT = 8.0  # standard deviations
_LEAST, _HIGHEST = 0.3, 0.9  # correlation of lengths that say something; what is trusted of it
_BEATEN = 0.7  # of the correlation at k, what another may have
_EQUAL = 0.3  # of the lines, more than in the rest of the corpus
_STEPS = np.arange(-_REACH, _REACH + 1)


class Shift(NamedTuple):
    """From line `first` to line `last`, line n of the source fits line n + `by` of the target."""

    first: int
    last: int
    by: int
    is_proven: bool
    """Other lines fit as they stand; without such lines it may be the nature of the corpus."""


def find_shifts(lengths: Array) -> list[Shift]:
    """The stretches of `lengths` [lines,2] that are shifted; 0 is a length that is not known."""
    scores = tuple(_normal_scores(lengths, side=side) for side in (0, 1))
    if scores[0] is None or scores[1] is None:
        return []
    lines = _Lines(lengths, (scores[0], scores[1]))
    lines.correlation = _correlation(lines)
    if lines.correlation < _LEAST:
        return []
    stretches = _placed(_path(lines), lines)
    aligned = [stretch for stretch in stretches if not stretch.by]
    found = [_shift(stretch, lines=lines, aligned=aligned) for stretch in stretches if stretch.by]
    return [shift for shift in found if shift]


class _Stretch(NamedTuple):
    start: int  # from 0
    stop: int
    by: int


class _Lines:
    """Normal scores and what they say, of any range of lines."""

    def __init__(self, lengths: Array, scores: tuple[Array, Array]) -> None:
        self._lengths, self._scores = lengths, scores
        self.correlation = 0.0

    def __len__(self) -> int:
        return len(self._lengths)

    def chunks(self, start: int, stop: int, *, size: int | None = None) -> Iterator[tuple[int, int]]:
        size = size or _CHUNK
        return ((at, min(at + size, stop)) for at in range(start, stop, size))

    def scores(self, start: int, stop: int) -> tuple[Array, Array]:
        """a [lines] and b [lines,k] of source lines and the targets around them; NaN where it is not known."""
        low, high = max(0, start - _REACH), min(len(self), stop + _REACH)
        around = np.full(stop - start + 2 * _REACH, np.nan, dtype=np.float32)
        around[low - start + _REACH : high - start + _REACH] = self._scores[1][self._lengths[low:high, 1]]
        source = self._scores[0][self._lengths[start:stop, 0]]
        return source, np.lib.stride_tricks.sliding_window_view(around, 2 * _REACH + 1)

    def contrasts(self, start: int, stop: int) -> Array:
        """c [lines,k]; 0 where one of the three lengths is not known."""
        source, targets = self.scores(start, stop)
        rho = self.correlation
        aligned = targets[:, _REACH, None]
        said = source[:, None] * (targets - aligned) - rho / 2 * (targets**2 - aligned**2)
        return np.asarray(np.nan_to_num(np.clip(rho / (1 - rho**2) * said, -_CLIP, _CLIP)))

    def equals(self, stretches: list[_Stretch], *, by: int) -> float:
        """The share of lines that are just as long as the target `by` lines on."""
        same = count = 0
        for stretch in stretches:
            start, stop = max(stretch.start, -by), min(stretch.stop, len(self) - by)
            for low, high in self.chunks(start, stop):
                source, target = self._lengths[low:high, 0], self._lengths[low + by : high + by, 1]
                known = (source > 0) & (target > 0)
                same, count = same + int((known & (source == target)).sum()), count + int(known.sum())
        return same / max(1, count)


def _normal_scores(lengths: Array, *, side: int) -> Array | None:
    """The normal score of each length (NaN of 0), by rank; None where all are the same."""
    counts = np.zeros(LONGEST + 1, dtype=np.int64)
    for at in range(0, len(lengths), _CHUNK):
        counts += np.bincount(lengths[at : at + _CHUNK, side], minlength=LONGEST + 1)
    counts[0] = 0
    present = np.flatnonzero(counts)
    if len(present) < 2:
        return None
    below = np.cumsum(counts[present])
    ranks = (below - counts[present] / 2) / below[-1]
    normal = np.array([NormalDist().inv_cdf(rank) for rank in ranks])
    shares = counts[present] / below[-1]
    normal -= (shares * normal).sum()
    scores = np.full(LONGEST + 1, np.nan, dtype=np.float32)
    scores[present] = normal / sqrt((shares * normal**2).sum())
    return scores


def _correlation(lines: _Lines) -> float:
    """The correlation of lines that belong together, wherever they stand: the median of the parts' best."""
    return min(float(np.median(_correlations(lines, 0, len(lines)).max(axis=1))), _HIGHEST)


def _correlations(lines: _Lines, start: int, stop: int) -> Array:
    """The correlation [parts,k] at each k, of parts of the lines; a part is not much shorter than the others."""
    ranges = list(lines.chunks(start, stop, size=_PART))
    whole = [each for each in ranges if each[1] - each[0] >= _PART // 2] or ranges[:1]
    return np.array([_correlated(*lines.scores(low, high)) for low, high in whole])


def _correlated(source: Array, targets: Array) -> Array:
    """The correlation [k] of a [lines] with each column of b [lines,k]."""
    known = ~np.isnan(source)[:, None] & ~np.isnan(targets)
    count = np.maximum(known.sum(axis=0), 1)
    one, other = np.where(known, source[:, None], 0.0), np.where(known, targets, 0.0)
    one = np.where(known, one - one.sum(axis=0) / count, 0.0)
    other = np.where(known, other - other.sum(axis=0) / count, 0.0)
    size = np.sqrt((one**2).sum(axis=0) * (other**2).sum(axis=0))
    return np.asarray((one * other).sum(axis=0) / np.maximum(size, 1e-6))


def _path(lines: _Lines) -> list[_Stretch]:
    """The best k of every cell, as stretches."""
    total = np.where(_STEPS == 0, 0.0, -_PRICE)
    came: list[tuple[Array, Array]] = []
    for start, stop in lines.chunks(0, len(lines)):
        cells = np.add.reduceat(lines.contrasts(start, stop), np.arange(0, stop - start, _CELL), axis=0)
        stays, bests = np.empty(cells.shape, dtype=bool), np.empty(len(cells), dtype=np.uint8)
        for place, cell in enumerate(cells):
            bests[place] = best = int(total.argmax())
            changed = total[best] - _PRICE
            stays[place] = total >= changed
            total = np.maximum(total, changed) + cell
        came.append((np.packbits(stays, axis=1), bests))
    return _walked_back(came, state=int(total.argmax()), lines=len(lines))


def _walked_back(came: list[tuple[Array, Array]], *, state: int, lines: int) -> list[_Stretch]:
    """The stretches of the path that ends in `state`; `came` has of each cell which k it kept, and the best before."""
    stretches: list[_Stretch] = []
    end = lines
    for chunk, (packed, bests) in reversed(list(enumerate(came))):
        stays = np.unpackbits(packed, axis=1, count=len(_STEPS))
        for place in range(len(bests) - 1, -1, -1):
            if not stays[place, state]:
                start = chunk * _CHUNK + place * _CELL
                stretches.append(_Stretch(start, end, int(_STEPS[state])))
                end, state = start, int(bests[place])
    stretches.append(_Stretch(0, end, int(_STEPS[state])))
    return [stretch for stretch in reversed(stretches) if stretch.start < stretch.stop]


def _placed(stretches: list[_Stretch], lines: _Lines) -> list[_Stretch]:
    """The stretches with every change at the line where the sum of what is said for the one before is highest."""
    placed = stretches[:1]
    for after in stretches[1:]:
        before = placed[-1]
        low = max(before.start, after.start - _PART)
        high = min(after.stop, after.start + _PART)
        contrasts = lines.contrasts(low, high)
        gain = np.cumsum(contrasts[:, before.by + _REACH] - contrasts[:, after.by + _REACH])
        at = low + int(np.concatenate([[0.0], gain]).argmax())
        placed[-1:] = [before._replace(stop=at), after._replace(start=at)]
    return [stretch for stretch in placed if stretch.start < stretch.stop]


def _shift(stretch: _Stretch, *, lines: _Lines, aligned: list[_Stretch]) -> Shift | None:
    """A stretch of the path, if it holds by itself."""
    place = stretch.by + _REACH
    if _deviations([stretch], lines=lines, by=stretch.by) < _SIGNIFICANT:
        return None
    found = np.median(_correlations(lines, stretch.start, stretch.stop), axis=0)
    others = np.delete(found, place)
    if found[place] < _LEAST or found[_REACH] > _BEATEN * found[place]:
        return None
    usual = lines.equals(aligned, by=0) if aligned else 0.0
    if lines.equals([stretch], by=stretch.by) > usual + _EQUAL:  # the same texts, so not their translations
        return None
    is_proven = _deviations(aligned, lines=lines, by=stretch.by) <= -_SIGNIFICANT
    if not is_proven and others.max() > _BEATEN * found[place]:
        return None
    return Shift(stretch.start + 1, stretch.stop, stretch.by, is_proven)


def _deviations(stretches: list[_Stretch], *, lines: _Lines, by: int) -> float:
    """How many standard deviations the sum of c is above 0; what neighbours say alike counts once."""
    total = squares = 0.0
    sums: list[Array] = []
    for stretch in stretches:
        for low, high in lines.chunks(stretch.start, stretch.stop):
            said = lines.contrasts(low, high)[:, by + _REACH].astype(np.float64)
            total += float(said.sum())
            squares += float((said**2).sum())
            sums.append(said[: len(said) // _NEAR * _NEAR].reshape(-1, _NEAR).sum(axis=1))
    if not squares:
        return 0.0
    groups = np.concatenate(sums)
    return total / sqrt(max(squares, float(groups.var()) * len(groups) if len(groups) else 0.0))


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
