"""Subword regularisation: segmentations of a word into pieces, sampled at random.

The sentencepiece library can sample too, but its samples differ between processes even with the same seed.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import Protocol

_CACHED_WORDS = 1 << 16


class Segmenter(Protocol):
    """Splits a word into pieces. Characters that no piece covers stand alone."""

    def __call__(self, word: str, *, random: Random) -> list[str]: ...


class MergeDropout:
    """Segments words by BPE-dropout (Provilkov et al. 2020, Algorithm 1).

    In every round each possible merge is dropped with probability p, and of the remaining merges the one learnt first
    is applied, until none remains.   Law: p = 0 gives byte-pair encoding, p = 1 gives single characters.
    """

    def __init__(self, scores: Mapping[str, float], *, dropout: float) -> None:
        self.scores = scores
        self.dropout = dropout

    def __call__(self, word: str, *, random: Random) -> list[str]:
        symbols = list(word)
        while True:
            best, position = -math.inf, -1
            for left in range(len(symbols) - 1):
                score = self.scores.get(symbols[left] + symbols[left + 1])
                # Once a better merge has been kept, it does not matter whether this one is.
                if score is not None and score > best and random.random() >= self.dropout:
                    best, position = score, left
            if position < 0:
                return symbols
            symbols[position : position + 2] = [symbols[position] + symbols[position + 1]]


class UnigramSampling:
    """Samples among all segmentations of a word, each with probability ∝ (Π P(piece))^α (Kudo 2018, §3.3).

    Forward filtering, backward sampling: with Z(i) the sum over all segmentations of the first i characters, their last
    piece starts at h with probability Z(h) P(piece)^α / Z(i), and so on backwards. A character that no piece covers
    stands alone.
    """

    def __init__(self, scores: Mapping[str, float], *, alpha: float) -> None:
        self.scores = scores
        self.alpha = alpha
        self.longest = max(map(len, scores), default=1)
        self.starts = lru_cache(maxsize=_CACHED_WORDS)(self._starts)

    def __call__(self, word: str, *, random: Random) -> list[str]:
        starts = self.starts(word)
        pieces: list[str] = []
        end = len(word)
        while end > 0:
            number = random.random()
            start = next((start for start, cumulative in starts[end] if number < cumulative), starts[end][-1][0])
            pieces.append(word[start:end])
            end = start
        return pieces[::-1]

    def _starts(self, word: str) -> list[list[tuple[int, float]]]:
        """For each prefix of `word`, the possible starts of its last piece, with their cumulative probabilities."""
        log_z = [0.0]
        starts: list[list[tuple[int, float]]] = [[]]
        for end in range(1, len(word) + 1):
            candidates = [
                (start, log_z[start] + self.alpha * self.scores[word[start:end]])
                for start in range(max(0, end - self.longest), end)
                if word[start:end] in self.scores
            ]
            candidates = candidates or [(end - 1, log_z[end - 1])]
            highest = max(weight for _, weight in candidates)
            sums, total = [], 0.0
            for start, weight in candidates:
                total += math.exp(weight - highest)
                sums.append((start, total))
            starts.append([(start, partial_sum / total) for start, partial_sum in sums])
            log_z.append(highest + math.log(total))
        return starts


class NBestSampling:
    """Samples among the n best segmentations of a whole text, each with probability ∝ P^α (Kudo 2018, §3.3).

    `segment` is a function that returns the n best segmentations of a text, each as ids with its log P, such as
    `SentencePieceTokenizer.nbest`.
    """

    def __init__(self, segment: Callable[[str], Sequence[tuple[list[int], float]]], *, alpha: float) -> None:
        self.segment = segment
        self.alpha = alpha

    def __call__(self, text: str, *, random: Random) -> list[int]:
        segmentations = self.segment(text)
        highest = max(score for _, score in segmentations)
        sums = list(accumulate(math.exp(self.alpha * (score - highest)) for _, score in segmentations))
        index = bisect_right(sums, random.random() * sums[-1])
        return segmentations[min(index, len(segmentations) - 1)][0]
