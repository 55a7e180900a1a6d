"""Detects misaligned stretches, in which source line n belongs to target line n + k, from the lengths of lines.

Lengths are converted, by their ranks, to z-scores a (source) and b (target). With ρ the correlation of lines that
belong together, a bivariate Gaussian gives the log-likelihood ratio of "source line i belongs to target line i + k"
over "source line i belongs to target line i":

    c_k(i) = ρ/(1 − ρ²) · [a_i (b_{i+k} − b_i) − ρ/2 (b_{i+k}² − b_i²)]

The Viterbi algorithm, over cells of 32 consecutive lines, finds the path k(i) with the largest sum of c minus a penalty
per change of k. The exact lines of the changes are then determined. Every shift on the path must pass further tests:
its sum is many standard deviations above 0, and lengths correlate at shift k but much less at shift 0. Lengths
that are uninformative, sorted, repeated or equal therefore produce no shifts.
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
"""The largest length that is distinguished, in characters; longer texts count as this long."""

_REACH = 10  # lines
_CELL = 32  # lines
_CHUNK = 1 << 14  # lines, a multiple of a cell
_PART = 1 << 10  # lines per estimate of the correlation
_NEAR = 8  # lines; within such a group, contrasts may be correlated
_PRICE = 20.0  # penalty of a change of k, in nats
_CLIP = 4.0  # nats per line at most
_SIGNIFICANT = 8.0  # standard deviations
_LEAST, _HIGHEST = 0.3, 0.9  # the least correlation that is informative; the cap on ρ
_BEATEN = 0.7  # share of the correlation at k that another k may reach
_EQUAL = 0.3  # excess share of lines of equal length, over the rest of the corpus
_STEPS = np.arange(-_REACH, _REACH + 1)


class Shift(NamedTuple):
    """From line `first` to line `last`, source line n matches target line n + `by`."""

    first: int
    last: int
    by: int
    is_proven: bool
    """Whether other lines of the corpus are aligned. If none are, the shift may be intended."""


def find_shifts(lengths: Array) -> list[Shift]:
    """The shifted stretches of a corpus with these `lengths` [lines,2], where 0 means that a length is unknown."""
    scores = tuple(_z_scores(lengths, side=side) for side in (0, 1))
    if scores[0] is None or scores[1] is None:
        return []
    lines = _Lines(lengths, (scores[0], scores[1]))
    lines.correlation = _correlation(lines)
    if lines.correlation < _LEAST:
        return []
    stretches = _located(_path(lines), lines)
    aligned = [stretch for stretch in stretches if not stretch.by]
    shifts = [_shift(stretch, lines=lines, aligned=aligned) for stretch in stretches if stretch.by]
    return [shift for shift in shifts if shift]


class _Stretch(NamedTuple):
    start: int  # from 0
    stop: int
    by: int


class _Lines:
    """Computes, for any range of lines, z-scores of their lengths and log-likelihood ratios of possible shifts."""

    def __init__(self, lengths: Array, scores: tuple[Array, Array]) -> None:
        self._lengths, self._scores = lengths, scores
        self.correlation = 0.0

    def __len__(self) -> int:
        return len(self._lengths)

    def chunks(self, start: int, stop: int, *, size: int | None = None) -> Iterator[tuple[int, int]]:
        size = size or _CHUNK
        return ((low, min(low + size, stop)) for low in range(start, stop, size))

    def scores(self, start: int, stop: int) -> tuple[Array, Array]:
        """The z-scores a [lines] of the source lines i and b [lines,k] of the target lines i + k; NaN if unknown.

        Shifts k range from −_REACH to _REACH.
        """
        low, high = max(0, start - _REACH), min(len(self), stop + _REACH)
        around = np.full(stop - start + 2 * _REACH, np.nan, dtype=np.float32)
        around[low - start + _REACH : high - start + _REACH] = self._scores[1][self._lengths[low:high, 1]]
        source = self._scores[0][self._lengths[start:stop, 0]]
        return source, np.lib.stride_tricks.sliding_window_view(around, 2 * _REACH + 1)

    def contrasts(self, start: int, stop: int) -> Array:
        """Log-likelihood ratios [lines,k]: how much likelier source line i belongs to target line i + k than to line i.

        Shifts k range from −_REACH to _REACH. The ratio is 0 if the length of source line i, target line i or target
        line i + k is unknown.
        """
        source, targets = self.scores(start, stop)
        rho = self.correlation
        aligned = targets[:, _REACH, None]
        bracket = source[:, None] * (targets - aligned) - rho / 2 * (targets**2 - aligned**2)
        return np.asarray(np.nan_to_num(np.clip(rho / (1 - rho**2) * bracket, -_CLIP, _CLIP)))

    def equals(self, stretches: list[_Stretch], *, by: int) -> float:
        """Of the source lines in the stretches, the share exactly as long as the target line `by` lines further on."""
        equal = count = 0
        for stretch in stretches:
            start, stop = max(stretch.start, -by), min(stretch.stop, len(self) - by)
            for low, high in self.chunks(start, stop):
                source, target = self._lengths[low:high, 0], self._lengths[low + by : high + by, 1]
                known = (source > 0) & (target > 0)
                equal, count = equal + int((known & (source == target)).sum()), count + int(known.sum())
        return equal / max(1, count)


def _z_scores(lengths: Array, *, side: int) -> Array | None:
    """Maps every length in column `side` to a z-score by rank (NaN for length 0); None if all lengths are equal."""
    counts = np.zeros(LONGEST + 1, dtype=np.int64)
    for start in range(0, len(lengths), _CHUNK):
        counts += np.bincount(lengths[start : start + _CHUNK, side], minlength=LONGEST + 1)
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
    """The median, over parts of the corpus, of the correlation of lengths at a part's best shift; at most _HIGHEST."""
    return min(float(np.median(_correlations(lines, 0, len(lines)).max(axis=1))), _HIGHEST)


def _correlations(lines: _Lines, start: int, stop: int) -> Array:
    """The correlation of source and target lengths in each part of _PART lines at each shift k, as [parts,k].

    A last part of less than half that size is left out, unless it is the only part.
    """
    ranges = list(lines.chunks(start, stop, size=_PART))
    parts = [(low, high) for low, high in ranges if high - low >= _PART // 2] or ranges[:1]
    return np.array([_correlated(*lines.scores(low, high)) for low, high in parts])


def _correlated(source: Array, targets: Array) -> Array:
    """The correlation [k] of the z-scores `source` [lines] with each column of `targets` [lines,k], NaNs left out."""
    known = ~np.isnan(source)[:, None] & ~np.isnan(targets)
    count = np.maximum(known.sum(axis=0), 1)
    a, b = np.where(known, source[:, None], 0.0), np.where(known, targets, 0.0)
    a = np.where(known, a - a.sum(axis=0) / count, 0.0)
    b = np.where(known, b - b.sum(axis=0) / count, 0.0)
    norm = np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))
    return np.asarray((a * b).sum(axis=0) / np.maximum(norm, 1e-6))


def _path(lines: _Lines) -> list[_Stretch]:
    """The most likely shift of every cell of _CELL lines (Viterbi), as stretches of lines with the same shift."""
    total = np.where(_STEPS == 0, 0.0, -_PRICE)
    backpointers: list[tuple[Array, Array]] = []
    for start, stop in lines.chunks(0, len(lines)):
        cells = np.add.reduceat(lines.contrasts(start, stop), np.arange(0, stop - start, _CELL), axis=0)
        stays, bests = np.empty(cells.shape, dtype=bool), np.empty(len(cells), dtype=np.uint8)
        for index, cell in enumerate(cells):
            bests[index] = best = int(total.argmax())
            changed = total[best] - _PRICE
            stays[index] = total >= changed
            total = np.maximum(total, changed) + cell
        backpointers.append((np.packbits(stays, axis=1), bests))
    return _backtrace(backpointers, state=int(total.argmax()), lines=len(lines))


def _backtrace(backpointers: list[tuple[Array, Array]], *, state: int, lines: int) -> list[_Stretch]:
    """The stretches of lines with the same shift on the most likely path that ends in the shift with index `state`.

    For each cell of _CELL lines, `backpointers` holds the set of shifts that are best reached from the same shift in
    the cell before, and the shift of the cell before from which all other shifts are best reached.
    """
    stretches: list[_Stretch] = []
    end = lines
    for chunk, (packed, bests) in reversed(list(enumerate(backpointers))):
        stays = np.unpackbits(packed, axis=1, count=len(_STEPS))
        for index in range(len(bests) - 1, -1, -1):
            if not stays[index, state]:
                start = chunk * _CHUNK + index * _CELL
                stretches.append(_Stretch(start, end, int(_STEPS[state])))
                end, state = start, int(bests[index])
    stretches.append(_Stretch(0, end, int(_STEPS[state])))
    return [stretch for stretch in reversed(stretches) if stretch.start < stretch.stop]


def _located(stretches: list[_Stretch], lines: _Lines) -> list[_Stretch]:
    """The stretches, with each boundary between two of them moved to the line that maximises their log-likelihood."""
    located = stretches[:1]
    for after in stretches[1:]:
        before = located[-1]
        low = max(before.start, after.start - _PART)
        high = min(after.stop, after.start + _PART)
        contrasts = lines.contrasts(low, high)
        gain = np.cumsum(contrasts[:, before.by + _REACH] - contrasts[:, after.by + _REACH])
        boundary = low + int(np.concatenate([[0.0], gain]).argmax())
        located[-1:] = [before._replace(stop=boundary), after._replace(start=boundary)]
    return [stretch for stretch in located if stretch.start < stretch.stop]


def _shift(stretch: _Stretch, *, lines: _Lines, aligned: list[_Stretch]) -> Shift | None:
    """The stretch as a `Shift`; None if statistical tests, some against the `aligned` stretches, do not confirm it."""
    column = stretch.by + _REACH
    if _deviations([stretch], lines=lines, by=stretch.by) < _SIGNIFICANT:
        return None
    correlations = np.median(_correlations(lines, stretch.start, stretch.stop), axis=0)
    others = np.delete(correlations, column)
    if correlations[column] < _LEAST or correlations[_REACH] > _BEATEN * correlations[column]:
        return None
    baseline = lines.equals(aligned, by=0) if aligned else 0.0
    if lines.equals([stretch], by=stretch.by) > baseline + _EQUAL:  # the same texts rather than translations
        return None
    is_proven = _deviations(aligned, lines=lines, by=stretch.by) <= -_SIGNIFICANT
    if not is_proven and others.max() > _BEATEN * correlations[column]:
        return None
    return Shift(stretch.start + 1, stretch.stop, stretch.by, is_proven)


def _deviations(stretches: list[_Stretch], *, lines: _Lines, by: int) -> float:
    """The log-likelihood ratio of shift `by` to no shift, summed over the stretches, in standard deviations.

    The variance allows for correlation between neighbouring lines.
    """
    total = squares = 0.0
    sums: list[Array] = []
    for stretch in stretches:
        for low, high in lines.chunks(stretch.start, stretch.stop):
            contrasts = lines.contrasts(low, high)[:, by + _REACH].astype(np.float64)
            total += float(contrasts.sum())
            squares += float((contrasts**2).sum())
            sums.append(contrasts[: len(contrasts) // _NEAR * _NEAR].reshape(-1, _NEAR).sum(axis=1))
    if not squares:
        return 0.0
    groups = np.concatenate(sums)
    return total / sqrt(max(squares, float(groups.var()) * len(groups) if len(groups) else 0.0))


_SHOWN = 5


class Doubts(NamedTuple):
    """Messages about misaligned lines in a corpus, divided into reasons to reject it and warnings."""

    problems: list[str]
    """Reasons to reject the corpus."""
    warnings: list[str]


class LineLengths:
    """The lengths of both sides of every line, in a temporary file, so that memory does not grow with the corpus."""

    def __init__(self) -> None:
        self._file = TemporaryFile()  # noqa: SIM115 - closed with its owner
        finalize(self, self._file.close)
        self._lines = 0

    def add(self, lengths: Array) -> None:
        """Appends the source and target lengths [lines,2] of the next lines of the corpus; 0 means unknown."""
        self._file.write(lengths.astype("<u2").tobytes())
        self._lines += len(lengths)

    def doubts(self, corpus: Corpus, *, shifted: Shifted) -> Doubts:
        """Messages about the first few misaligned stretches; `shifted` says whether they are reasons for rejection."""
        if not self._lines:
            return Doubts([], [])
        self._file.flush()
        lengths: Array = np.memmap(self._file, dtype="<u2", mode="r", shape=(self._lines, 2))
        shifts = find_shifts(lengths)
        rejected = [shift for shift in shifts if shift.is_proven and shifted == "fail"]
        others = [shift for shift in shifts if shift not in rejected]
        hint = ", or set data.shifted=warn to use the corpus as it is"
        return Doubts(
            problems=_messages(rejected, corpus, lines=self._lines, hint=hint),
            warnings=_messages(others, corpus, lines=self._lines, hint=""),
        )


def by_line(source: Array, *, target: Array, lines: Array, first: int, count: int) -> Array:
    """The source and target lengths [count,2] of `count` lines from line `first`; 0 for lines without a usable pair."""
    lengths = np.zeros((count, 2), dtype=np.uint16)
    lengths[lines - first] = np.minimum(np.stack([source, target], axis=1), LONGEST)
    return lengths


def _messages(shifts: list[Shift], corpus: Corpus, *, lines: int, hint: str) -> list[str]:
    if not shifts:
        return []
    names = " + ".join(str(path) for key, path in paths(corpus).items() if key != "alignments")
    message = [f"{names}: source and target are misaligned, judging by the lengths of their lines:"]
    message += [_describe(shift, lines=lines) for shift in shifts[:_SHOWN]]
    message += [f"  … and {len(shifts) - _SHOWN:,} more such stretches"] if len(shifts) > _SHOWN else []
    if all(shift.is_proven for shift in shifts):
        message.append(f"  other lines are aligned; look for a missing, duplicated or broken line{hint}")
    else:
        message.append("  no other lines are aligned; if this offset is intended, ignore this warning")
    return ["\n".join(message)]


def _describe(shift: Shift, *, lines: int) -> str:
    count = abs(shift.by)
    distance = "1 line" if count == 1 else f"{count} lines"
    last = "the end" if shift.last == lines else f"about line {shift.last:,}"
    first = "line 1" if shift.first == 1 else f"about line {shift.first:,}"
    late, sign = ("late", "+") if shift.by > 0 else ("early", "-")
    match = f"source line n matches target line n {sign} {count}"
    return f"  from {first} to {last} targets come {distance} too {late}: {match}"
