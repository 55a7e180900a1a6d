"""Back-off tables: the probabilities of an n-gram model, and fast queries on the host.

    p(w | h) = p(h w) if the n-gram h w is in the table, else b(h) · p(w | h′), where h′ is h without its first word

b(h) is 1 for a history that is not in the table. Logarithms in the tables are to base 10, as in ARPA files, so that
reading and writing such files needs no conversion. Letters: V vocabulary, R rows of an order (see `ngram_counts`).
"""

from collections.abc import Sequence
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.statistics.ngram_counts import Integers

Floats = NDArray[np.float64]
State = tuple[int, ...]

LN10 = log(10)
NEVER = -99.0  # log₁₀ p of words that are never predicted, as in ARPA files
MEMO = 1 << 20  # queries remembered


class NgramTables(NamedTuple):
    """The tables of a back-off model; each list has one array per order, [R], shortest n-grams first."""

    vocabulary_size: int
    keys: list[Integers]
    """The keys of the n-grams, ascending; those of order 1 are all word ids."""
    log_probs: list[Floats]
    """log₁₀ of the probability of an n-gram's last word given the others."""
    backoffs: list[Floats]
    """log₁₀ of the back-off weight b of an n-gram as a history; the highest order has none."""

    @property
    def order(self) -> int:
        return len(self.keys)

    @property
    def sizes(self) -> list[int]:
        """The number of n-grams of each order."""
        return [len(keys) for keys in self.keys]

    def find(self, words: Integers) -> Integers:
        """The rows [M] of n-grams [M,n] of the same order; −1 for those that are not in the table."""
        rows = words[:, 0].copy()
        rows[(rows < 0) | (rows >= self.vocabulary_size)] = -1
        for level in range(1, words.shape[1]):
            keys, word = self.keys[level], words[:, level]
            wanted = np.where((rows < 0) | (word < 0), -1, rows * self.vocabulary_size + word)
            places = np.searchsorted(keys, wanted)
            found = np.zeros(len(rows), dtype=np.bool_)
            inside = places < len(keys)
            found[inside] = keys[places[inside]] == wanted[inside]
            rows = np.where(found, places, -1)
        return rows


class NgramQueries:
    """Queries one word at a time, for search on the host; answers are cached.

    A state is the longest suffix of the words read that is a history in the table, as ids: hypotheses with the same
    state have the same future.

    >>> queries = NgramQueries(tables, begin=BOS)
    >>> log_prob, state = queries.score(queries.start(), word)
    """

    def __init__(self, tables: NgramTables, *, begin: int) -> None:
        self.tables = tables
        self.begin = begin
        self._rows: dict[State, int | None] = {}
        self._answers: dict[tuple[State, int], tuple[float, State]] = {}

    def start(self) -> State:
        """The state at the beginning of a line."""
        return self._state((self.begin,))

    def score(self, state: State, word: int) -> tuple[float, State]:
        """The natural logarithm of p(word | state), and the state after the word."""
        answer = self._answers.get((state, word))
        if answer is None:
            if len(self._answers) >= MEMO:
                self._answers.clear()
            answer = self._answers[state, word] = (self.log_prob(state, word), self._state((*state, word)))
        return answer

    def score_all(self, words: Sequence[int], *, state: State | None = None) -> list[float]:
        """The natural logarithms of the probabilities of words in order, from a state or the beginning of a line."""
        state, log_probs = self.start() if state is None else state, []
        for word in words:
            log_prob, state = self.score(state, word)
            log_probs.append(log_prob)
        return log_probs

    def log_prob(self, history: State, word: int) -> float:
        """The natural logarithm of p(word | history), for any history."""
        tables, total = self.tables, 0.0
        history = history[max(0, len(history) - tables.order + 1) :]
        while history:
            row = self._row((*history, word))
            if row is not None:
                return (total + float(tables.log_probs[len(history)][row])) * LN10
            row = self._row(history)
            if row is not None:
                total += float(tables.backoffs[len(history) - 1][row])
            history = history[1:]
        return (total + float(tables.log_probs[0][word])) * LN10

    def _state(self, words: State) -> State:
        """The longest suffix of `words` that can serve as a history in the table; empty if none can."""
        for length in range(min(len(words), self.tables.order - 1), 0, -1):
            suffix = words[len(words) - length :]
            row = self._row(suffix)
            if row is not None and (length == 1 or self._continues(length, row)):
                return suffix
        return ()

    def _continues(self, length: int, row: int) -> bool:
        """Whether n-gram `row` of order `length` matters as a history: it has a back-off weight or following words."""
        tables = self.tables
        if tables.backoffs[length - 1][row] != 0:
            return True
        first = row * tables.vocabulary_size
        keys = tables.keys[length]
        return bool(keys.searchsorted(first) < keys.searchsorted(first + tables.vocabulary_size))

    def _row(self, words: State) -> int | None:
        """The row of the n-gram `words` in the table of its order; None if it is not there."""
        if len(words) == 1:
            return words[0]
        if words in self._rows:
            return self._rows[words]
        prefix = self._row(words[:-1])
        row = None
        if prefix is not None:
            keys = self.tables.keys[len(words) - 1]
            wanted = prefix * self.tables.vocabulary_size + words[-1]
            place = int(keys.searchsorted(wanted))
            row = place if place < len(keys) and keys[place] == wanted else None
        if len(self._rows) >= MEMO:
            self._rows.clear()
        self._rows[words] = row
        return row
