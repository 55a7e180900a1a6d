"""Lexical tables: the target words that translate a source word, and how likely each of them is."""

from typing import NamedTuple

import numpy as np

from calque.data.store import Array
from calque.statistics.cooccurrence import Cooccurrences, Floats

MINIMUM = 1e-4
"""Translations that are less likely than this are left out of a table."""


class LexicalTable(NamedTuple):
    """t(target | source), sparse: row s is `[offsets[s] : offsets[s + 1]]`, the most likely target first.

    The last row belongs to the empty word. Equally likely targets are in the order of their ids.

    >>> table = train_lexicon(store["source"], store["target"])
    >>> targets, probabilities = table.best(source_id, 10)
    """

    offsets: Array  # int64 [sources + 2]
    targets: Array  # int32 [entries]
    probabilities: Floats  # [entries]

    @property
    def sources(self) -> int:
        """The size of the source vocabulary, which is also the source id of the empty word."""
        return len(self.offsets) - 2

    def best(self, source: int, count: int | None = None) -> tuple[Array, Floats]:
        """The most likely targets of a source id and their probabilities, at most `count`; none for an unseen word."""
        start, stop = int(self.offsets[source]), int(self.offsets[source + 1])
        stop = stop if count is None else min(stop, start + count)
        return self.targets[start:stop], self.probabilities[start:stop]


def lexical_table(corpus: Cooccurrences, lexical: Floats, *, minimum: float = MINIMUM) -> LexicalTable:
    """The table of the `lexical` probabilities, one per pair of co-occurring words, that are at least `minimum`."""
    kept = np.flatnonzero(lexical >= minimum)
    sources = np.searchsorted(corpus.offsets, kept, side="right") - 1
    targets, probabilities = corpus.targets[kept], lexical[kept]
    order = np.lexsort((targets, -probabilities, sources))
    offsets = np.searchsorted(sources, np.arange(len(corpus.offsets)))
    return LexicalTable(offsets, targets[order], probabilities[order])
