"""Lexical shortlists: the few target pieces that the translation of a sentence is likely to contain.

A sentence's list contains the most frequent target pieces, which all sentences share, and the most likely translations
of each of its source pieces (Jean et al. 2015, §3.3; Mi, Wang and Ittycheriah 2016).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.data.store import Array, Store, id_counts
from calque.statistics.em import SILENT, Observer
from calque.statistics.word_alignment import IBM1, AlignmentSettings, train_lexicon
from calque.text.vocabulary import EOS, PIECES, UNK, Vocabulary

FREQUENT, BEST, SAMPLE = 2000, 20, 256


class Shortlist(NamedTuple):
    """Frequent target pieces, and the likely translations of each source piece.

    >>> shortlist.own([17, 4, 256])  # translations of these source pieces that are not frequent
    array([1203, 2310, 7001], dtype=int32)
    """

    frequent: Array  # int32 [M], increasing; with the end mark and the unknown piece
    sample: Array  # int32 [r], increasing; pieces that are not frequent, evenly spaced when ordered by frequency
    offsets: Array  # int64 [sources + 1]: row s of the table is `targets[offsets[s] : offsets[s + 1]]`
    targets: Array  # int32 [entries], the translations that are not frequent; each row increasing

    @property
    def sources(self) -> int:
        """The size of the source vocabulary."""
        return len(self.offsets) - 1

    def own(self, source: Sequence[int], *, further: Sequence[int] = ()) -> Array:
        """The target ids that a source sentence adds to the frequent ones, in ascending order.

        These are the likely translations of its pieces, and the `further` target ids.
        """
        rows = [self.targets[self.offsets[id] : self.offsets[id + 1]] for id in set(source)]
        if further:
            rows.append(np.setdiff1d(np.array(further, dtype=np.int32), self.frequent))
        return np.unique(np.concatenate(rows)) if rows else self.targets[:0]


def build_shortlist(
    store: Store,
    *,
    source: Vocabulary,
    target: Vocabulary,
    frequent: int = FREQUENT,
    best: int = BEST,
    settings: AlignmentSettings = IBM1,
    observer: Observer = SILENT,
) -> Shortlist:
    """A shortlist of the `frequent` most frequent targets and the `best` most likely translations of each source piece.

    It is learnt from the columns source and target of a store. A source piece that is also a target piece counts as a
    translation of itself, so that names and numbers can be copied.
    """
    sizes = len(source), len(target)
    lexicon = train_lexicon(
        store["source"], store["target"], sources=sizes[0], targets=sizes[1], settings=settings, observer=observer
    )
    counts = id_counts(store, column="target", size=sizes[1], end=EOS, unknown=UNK)
    shared, sample = _frequent_and_sample(counts, frequent=frequent)
    same = np.array(target.ids(source.pieces), dtype=np.int32)  # UNK, which is frequent, if there is none
    same[: len(PIECES)] = UNK
    rows = [np.setdiff1d(np.append(lexicon.best(id, best)[0], same[id]), shared) for id in range(sizes[0])]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return Shortlist(shared, sample, offsets, np.concatenate(rows).astype(np.int32))


def _frequent_and_sample(counts: NDArray[np.float64], *, frequent: int) -> tuple[Array, Array]:
    """The ids of the `frequent` most frequent pieces, and a sample of the other ids.

    The frequent ids always include the end mark and the unknown piece, but no other piece with a count of 0. Of equally
    frequent pieces, the lower id comes first. The sample is evenly spaced in the list of ids ordered by frequency.
    """
    order = np.argsort(-counts, kind="stable")
    shared = np.union1d(order[: min(frequent, np.count_nonzero(counts))], [EOS, UNK])
    others = order[~np.isin(order, shared)]
    places = np.linspace(0, len(others) - 1, min(SAMPLE, len(others))).astype(np.int64)
    return shared.astype(np.int32), np.sort(others[places]).astype(np.int32)
