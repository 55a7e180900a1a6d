"""The usual lengths of lines in a model's data, by which long texts are split and translations limited in length."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

QUANTILE = 0.999  # of the target lengths for sources of similar length
MARGIN = 1.25  # translations may be this many times as long as that quantile,
EXTRA = 5  # and this many pieces longer
_STEPS = 4  # bins per doubling of the source length
_LONGEST = 1 << 14  # pieces; longer lines count as this long
_CHUNK = 1 << 20  # pairs counted at a time


class TargetLimit(NamedTuple):
    """The maximum number of pieces in the translation of a source of at most `source` pieces."""

    source: int
    target: int


class LengthProfile(NamedTuple):
    """The usual lengths of a model's source lines, and limits of the lengths of translations.

    `pieces` and `sentences` are the 99th percentiles of their numbers per held-out source line. `targets`, learnt from
    the training pairs, limit the length of a translation, given the length of its source.
    """

    pieces: int
    sentences: int
    targets: tuple[TargetLimit, ...] = ()  # by increasing source length; empty for models saved without them

    @classmethod
    def of(
        cls, *, pieces: Sequence[int], sentences: Sequence[int], targets: tuple[TargetLimit, ...] = ()
    ) -> "LengthProfile":
        """The profile, given the number of pieces and of sentences in each held-out source line."""
        return cls(_percentile_99(pieces), _percentile_99(sentences), targets)

    def longest_target(self, pieces: int) -> int | None:
        """The maximum number of pieces in the translation of a source of `pieces` pieces; None if unknown.

        For sources longer than those in training, the maximum grows in proportion to the source length.
        """
        if not self.targets:
            return None
        place = bisect_left(self.targets, pieces, key=lambda limit: limit.source)
        if place < len(self.targets):
            return self.targets[place].target
        last = self.targets[-1]
        return -(-last.target * pieces // last.source)


def target_limits(source: NDArray[np.integer], target: NDArray[np.integer]) -> tuple[TargetLimit, ...]:
    """The target limits of training pairs with these lengths in pieces.

    Sources are binned by length. The limit of a bin is 1.25 q + 5, where q is the 99.9 % quantile of its target
    lengths, or of a bin of shorter sources if that is larger. In a bin with few pairs, q is the length of the longest
    target.
    """
    bounds = _bounds(int(source.max(initial=1)))
    counts = np.zeros((len(bounds), _LONGEST + 1), dtype=np.int64)
    for start in range(0, len(source), _CHUNK):
        bins = np.searchsorted(bounds, source[start : start + _CHUNK])
        lengths = np.minimum(target[start : start + _CHUNK], _LONGEST)
        cells = bins.astype(np.int64) * (_LONGEST + 1) + lengths
        counts += np.bincount(cells, minlength=counts.size).reshape(counts.shape)
    limits, longest = [], 0
    for bound, row in zip(bounds.tolist(), counts, strict=True):
        if total := int(row.sum()):
            longest = max(longest, int(np.searchsorted(row.cumsum(), QUANTILE * total)))
            limits.append(TargetLimit(bound, int(np.ceil(MARGIN * longest)) + EXTRA))
    return tuple(limits)


def _bounds(longest: int) -> NDArray[np.int64]:
    """The largest source length of each bin: 1, 2, 3, … then four bins per doubling, the last at least `longest`."""
    count = max(1, int(np.ceil(_STEPS * np.log2(max(longest, 1)))) + 1)
    return np.unique(np.ceil(2 ** (np.arange(count + 1) / _STEPS)).astype(np.int64))


def _percentile_99(counts: Sequence[int]) -> int:
    """The 99th percentile (the smallest count that at least 99 % do not exceed), but at least 1."""
    return max(1, sorted(counts)[-(-99 * len(counts) // 100) - 1]) if counts else 1
