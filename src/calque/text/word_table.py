"""Converts texts to ids word by word: each distinct word is split into pieces only once.

A corpus has far fewer distinct words than words, so this is several times as fast as splitting every text anew.
"""

from collections.abc import Callable, Sequence
from itertools import chain, islice, repeat
from operator import not_
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_MOST, _MOST_IDS = 1 << 17, 1 << 20  # words and ids; then the table starts afresh, so that memory stays bounded


class FlatIds(NamedTuple):
    """The ids of several texts, concatenated, and the number of ids of each text."""

    values: Array  # uint32
    lengths: Array  # uint32


class WordTable:
    """Converts texts to ids. Words are separated by single spaces and encoded independently.

    Law: the ids of a text are the concatenated `encode_words` of `text.split(" ")`; an empty text has none.
    """

    def __init__(self, encode_words: Callable[[Sequence[str]], Sequence[Sequence[int]]]) -> None:
        self._encode_words = encode_words
        self._clear()

    def __call__(self, texts: Sequence[str]) -> FlatIds:
        if len(self._numbers) > _MOST or len(self._ids) > _MOST_IDS:
            self._clear()
        known = len(self._numbers)
        words = " ".join(filter(None, texts)).split(" ") if any(texts) else []
        numbers = np.fromiter(map(self._numbers.__getitem__, words), dtype=np.int64, count=len(words))
        if len(self._numbers) > known:
            self._add(list(islice(self._numbers, known, None)))
        sizes = self._sizes[numbers]
        ends = np.cumsum(sizes)
        starts = self._starts[numbers] - (ends - sizes)
        total = int(ends[-1]) if len(ends) else 0
        values = self._ids[np.repeat(starts, sizes) + np.arange(total)]
        counts = np.fromiter(map(str.count, texts, repeat(" ")), dtype=np.int64, count=len(texts)) + 1
        counts[np.fromiter(map(not_, texts), dtype=bool, count=len(texts))] = 0
        lasts = np.concatenate([[0], ends])[np.cumsum(counts)]  # the number of ids up to the end of each text
        return FlatIds(values, np.diff(lasts, prepend=0).astype(np.uint32))

    def _clear(self) -> None:
        self._numbers = _Numbers()
        self._ids: Array = np.zeros(0, dtype=np.uint32)  # of all words in the order of their numbers
        self._sizes: Array = np.zeros(0, dtype=np.int64)
        self._starts: Array = np.zeros(0, dtype=np.int64)

    def _add(self, words: Sequence[str]) -> None:
        """Encodes words that are not in the table yet, and appends their ids to it."""
        flat = flat_ids(self._encode_words(words))
        self._ids = np.concatenate([self._ids, flat.values])
        self._sizes = np.concatenate([self._sizes, flat.lengths.astype(np.int64)])
        self._starts = np.cumsum(self._sizes) - self._sizes


def flat_ids(sequences: Sequence[Sequence[int]]) -> FlatIds:
    """The concatenation of several sequences of ids, with their lengths."""
    lengths = np.fromiter(map(len, sequences), dtype=np.uint32, count=len(sequences))
    values = np.fromiter(chain.from_iterable(sequences), dtype=np.uint32, count=int(lengths.sum()))
    return FlatIds(values, lengths)


class _Numbers(dict[str, int]):
    """Numbers words from 0 in the order in which they are first looked up."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number
