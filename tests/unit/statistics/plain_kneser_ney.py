"""Modified Kneser-Ney smoothing written a second time, with dicts (Chen and Goodman 1998), and plain ARPA reading."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache

Gram = tuple[int, ...]


class PlainKneserNey:
    """p(w | h) from the paper's equations; `lines` contain their begin marks, which are never predicted."""

    def __init__(
        self, lines: Sequence[Sequence[int]], *, order: int, words: set[int], prune: Sequence[int] = ()
    ) -> None:
        self.order, self.words = order, words
        raw: list[Counter[Gram]] = [Counter() for _ in range(order + 1)]
        for line in lines:
            for n in range(1, order + 1):
                for i in range(len(line) - n + 1):
                    raw[n][tuple(line[i : i + n])] += 1
        first = Counter(tuple(line[:n]) for line in lines for n in range(1, order + 1) if len(line) >= n)
        for line in lines:
            raw[1][line[0],] -= 1  # it is given, not predicted
        self.counts: list[dict[Gram, int]] = [{} for _ in range(order + 1)]
        for n in range(1, order + 1):
            left: defaultdict[Gram, set[int]] = defaultdict(set)
            if n < order:
                for gram in raw[n + 1]:
                    left[gram[1:]].add(gram[0])
            for gram, count in raw[n].items():
                adjusted = count if n == order else len(left[gram]) + (first[gram] if n > 1 else 0)
                if adjusted and (n > 1 or gram[0] in words):
                    self.counts[n][gram] = adjusted
        limits = [0, 0] + [prune[min(n - 2, len(prune) - 1)] if prune else 0 for n in range(2, order + 1)]
        self.kept = [{gram for gram in self.counts[n] if raw[n][gram] > limits[n]} for n in range(1, order + 1)]
        self.discounts = [self._discounts(self.counts[n]) for n in range(1, order + 1)]
        self.after: defaultdict[Gram, list[int]] = defaultdict(list)
        for n in range(1, order + 1):
            for gram in self.counts[n]:
                self.after[gram[:-1]].append(gram[-1])
        self.p = cache(self._p)

    @staticmethod
    def _discounts(counts: dict[Gram, int]) -> list[float]:
        n1, n2, n3, n4 = (sum(1 for c in counts.values() if c == k) for k in (1, 2, 3, 4))
        try:
            y = n1 / (n1 + 2 * n2)
            found = [0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
        except ZeroDivisionError:
            found = [0, 0, 0, 0]
        fits = all(0 < found[k] <= k for k in (1, 2, 3))
        return found if fits else [0, 0.5, 1.0, 1.5]

    def _p(self, word: int, history: Gram) -> float:
        """p(word | history); the history may have any length."""
        history = history[max(0, len(history) - self.order + 1) :]
        lower = self.p(word, history[1:]) if history else 1 / len(self.words)
        n = len(history) + 1
        total, taken, own = 0, 0.0, 0.0
        for other in self.after[history]:
            gram = (*history, other)
            count = self.counts[n][gram]
            total += count
            if gram in self.kept[n - 1]:
                discount = self.discounts[n - 1][min(count, 3)]
                taken += count - discount
                if other == word:
                    own = count - discount
        if not total:
            return lower
        return own / total + (1 - taken / total) * lower


def plain_arpa(text: str) -> tuple[dict[tuple[str, ...], float], dict[tuple[str, ...], float]]:
    """The log₁₀ probabilities and back-off weights of an ARPA file, as dicts."""
    probabilities, weights, order = {}, {}, 0
    for line in text.splitlines():
        if line.endswith("-grams:"):
            order = int(line[1:].split("-")[0])
        elif order and line and not line.startswith("\\"):
            fields = line.split()
            words = tuple(fields[1 : 1 + order])
            probabilities[words] = float(fields[0])
            if len(fields) > 1 + order:
                weights[words] = float(fields[-1])
    return probabilities, weights


def arpa_log_prob(
    model: tuple[dict[tuple[str, ...], float], dict[tuple[str, ...], float]], history: tuple[str, ...], word: str
) -> float:
    """log₁₀ p(word | history) by the definition of back-off."""
    probabilities, weights = model
    if (*history, word) in probabilities:
        return probabilities[*history, word]
    return weights.get(history, 0.0) + arpa_log_prob(model, history[1:], word)
