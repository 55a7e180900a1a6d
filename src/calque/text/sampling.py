"""Other ways to cut a word into the pieces of a vocabulary, drawn at random.

The library has these too, but what it draws is another thing in every process, whatever its seed.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import Protocol

_REMEMBERED = 1 << 16  # words


class Cut(Protocol):
    """A way to cut: the pieces of a word, and what else it has of characters."""

    def __call__(self, word: str, *, random: Random) -> list[str]: ...


class MergeDropout:
    """BPE-dropout (Provilkov et al. 2020, Algorithm 1): in every round each possible merge is left out with
    probability p, and of the others the first to be learnt is done; it ends when none is left.

    Law: with p = 0 it is byte-pair encoding, with p = 1 a word is cut into characters.
    """

    def __init__(self, scores: Mapping[str, float], *, dropout: float) -> None:
        self.scores = scores
        self.dropout = dropout

    def __call__(self, word: str, *, random: Random) -> list[str]:
        symbols = list(word)
        while True:
            best, place = -math.inf, -1
            for left in range(len(symbols) - 1):
                score = self.scores.get(symbols[left] + symbols[left + 1])
                # Where a better merge was kept, it does not matter whether this one is.
                if score is not None and score > best and random.random() >= self.dropout:
                    best, place = score, left
            if place < 0:
                return symbols
            symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]


class UnigramDraws:
    """Ways to cut a word, each with probability ∝ (Π P(piece))^α (Kudo 2018, §3.3), over all of them.

    Forward filtering, backward sampling: with Z(i) the sum over all ways to cut the first i characters, the last piece
    of those begins at h with probability Z(h) P(piece)^α / Z(i), and so on. A character that is no piece stands alone.
    """

    def __init__(self, scores: Mapping[str, float], *, alpha: float) -> None:
        self.scores = scores
        self.alpha = alpha
        self.longest = max(map(len, scores), default=1)
        self.steps = lru_cache(maxsize=_REMEMBERED)(self._steps)

    def __call__(self, word: str, *, random: Random) -> list[str]:
        steps = self.steps(word)
        pieces: list[str] = []
        end = len(word)
        while end > 0:
            number = random.random()
            start = next((start for start, share in steps[end] if number < share), steps[end][-1][0])
            pieces.append(word[start:end])
            end = start
        return pieces[::-1]

    def _steps(self, word: str) -> list[list[tuple[int, float]]]:
        """For each end, where the piece before it may begin, with the sum of the shares up to there."""
        total = [0.0]  # log Z
        steps: list[list[tuple[int, float]]] = [[]]
        for end in range(1, len(word) + 1):
            ways = [
                (start, total[start] + self.alpha * self.scores[word[start:end]])
                for start in range(max(0, end - self.longest), end)
                if word[start:end] in self.scores
            ]
            ways = ways or [(end - 1, total[end - 1])]
            most = max(weight for _, weight in ways)
            sums, so_far = [], 0.0
            for start, weight in ways:
                so_far += math.exp(weight - most)
                sums.append((start, so_far))
            steps.append([(start, each / so_far) for start, each in sums])
            total.append(most + math.log(so_far))
        return steps


class NBestDraws:
    """One of the likeliest ways to cut a whole text, each with probability ∝ P^α among these (Kudo 2018, §3.3).

    `ways` lists them with log P, as `SentencePieceTokenizer.best_ways` does.
    """

    def __init__(self, ways: Callable[[str], Sequence[tuple[list[int], float]]], *, alpha: float) -> None:
        self.ways = ways
        self.alpha = alpha

    def __call__(self, text: str, *, random: Random) -> list[int]:
        ways = self.ways(text)
        most = max(score for _, score in ways)
        sums = list(accumulate(math.exp(self.alpha * (score - most)) for _, score in ways))
        place = bisect_right(sums, random.random() * sums[-1])
        return ways[min(place, len(ways) - 1)][0]
