"""The jumps of the HMM alignment model: from the source word of one target word to that of the next.

Letters: I source words, counted from 1; position 0 is the start of the sentence.
"""

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from calque.statistics.cooccurrence import Floats

STEPS = 5  # of each M-step; beside an E-step they cost nothing


class Jumps(NamedTuple):
    """p(i | i', I) = α/I + (1−α) · s(i − i') / Σₖ s(k − i'), with i and k from 1 to I, and i' from 0 to I.

    s(d) are weights of the jump widths d (Vogel et al. 1996); α smooths them with a uniform distribution (Och and Ney
    2003). i' = 0 is the start of a sentence.
    """

    weights: Floats  # of the widths −L … L
    smoothing: float

    @classmethod
    def uniform(cls, longest: int, *, smoothing: float) -> "Jumps":
        """Jumps that are all equally likely, for sentences of at most `longest` source words."""
        return cls(np.ones(2 * longest + 1), smoothing)

    @property
    def longest(self) -> int:
        """The number of words of the longest source sentence, L."""
        return len(self.weights) // 2

    def matrix(self, words: int) -> Floats:
        """p(i | i', I) [1+I,I] for a source of I words, with one row per i'."""
        return self.smoothing / words + (1 - self.smoothing) * self._unsmoothed(words)

    def _unsmoothed(self, words: int) -> Floats:
        weights = self._windows(words)
        totals = weights.sum(axis=1, keepdims=True)
        even = np.full_like(weights, 1 / words)  # where all weights are 0, as no jump was ever seen from there
        shares: Floats = np.divide(weights, totals, out=even, where=totals > 0)
        return shares

    def _windows(self, words: int) -> Floats:
        """The weights [1+I,I] of jumps from each position 0 … I (row) to each position 1 … I (column); I is `words`."""
        lowest = self.longest + 1 - words  # of i' = I
        windows: Floats = sliding_window_view(self.weights, words)[lowest : lowest + words + 1]
        return windows[::-1]

    def reestimated(self, counts: dict[int, Floats]) -> "Jumps":
        """The weights of the next iteration, given the expected number of jumps [1+I,I] from i' to i for each I.

        N(d) and M(i',I) are the expected numbers of jumps of width d, and of jumps from i' in a source of I words; the
        share of each jump that the uniform distribution explains is not counted. Their log-likelihood

            Q(s) = Σ_d N(d) log s(d) − Σ_{i',I} M(i',I) log Z(i',I),     Z(i',I) = Σ_{k=1..I} s(k − i')

        is not maximised by s = N, as a sentence allows only some widths. It never falls under (Hunter 2004)

            s(d) ← N(d) / Σ_{(i',I) that allow d} M(i',I) / Z(i',I)
        """
        by_width = np.zeros_like(self.weights)
        leaving: dict[int, Floats] = {}
        for words, matrix in counts.items():
            unsmoothed = (1 - self.smoothing) * self._unsmoothed(words)
            explained = matrix * unsmoothed / np.maximum(unsmoothed + self.smoothing / words, np.finfo(float).tiny)
            from_position, to_position = np.indices(matrix.shape)
            widths = self.longest + 1 + to_position - from_position
            by_width += np.bincount(widths.ravel(), weights=explained.ravel(), minlength=len(by_width))
            leaving[words] = explained.sum(axis=1)
        jumps = self
        for _ in range(STEPS):
            jumps = jumps._step(by_width, leaving)
        return jumps

    def _step(self, by_width: Floats, leaving: dict[int, Floats]) -> "Jumps":
        """The jumps after one update of the weights, given expected numbers of jumps by width and by start position."""
        expected = np.zeros_like(self.weights)  # Σ M / Z over the positions that allow a width
        for words, totals in leaving.items():
            normalisers = self._windows(words).sum(axis=1)
            shares = np.divide(totals, normalisers, out=np.zeros_like(totals), where=normalisers > 0)
            first = self.longest + 1 - words  # of the widths 1−I … I
            expected[first : first + 2 * words] += np.convolve(shares[::-1], np.ones(words))
        weights = np.divide(by_width, expected, out=np.zeros_like(by_width), where=expected > 0)
        total = weights.sum()
        return self._replace(weights=weights / total) if total > 0 else self
