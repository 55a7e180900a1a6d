"""Counting n-grams by sorting.

The n-grams of each order are the rows of a table, in ascending order of their keys. The key of an n-gram is
`prefix · V + word`: `word` is its last word, and `prefix` is the row number, in the table one order below, of the
n-gram without its last word. So n-grams with the same history are adjacent, and once the row of its prefix is known, an
n-gram is found by one binary search. In the table of order 1, row numbers are word ids.

Letters: P positions of the text, V vocabulary, R rows of an order.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.data.store import Column

Integers = NDArray[np.int64]
Progress = Callable[[str], None]
"""A function that is called with a description of the next phase."""

CHUNK = 1 << 22  # positions whose keys are sorted together, which bounds the memory beside text and n-grams


class MarkedText(NamedTuple):
    """A text with its begin and end marks."""

    tokens: NDArray[Any]  # [P]
    begins: NDArray[np.bool_]  # [P], true where a line begins that is independent of what precedes it


class NgramCounts(NamedTuple):
    """The n-grams of a text; each list has one array per order, [R], shortest n-grams first."""

    vocabulary_size: int
    keys: list[Integers]
    """The keys of the n-grams, ascending; those of order 1 are all word ids."""
    suffixes: list[Integers]
    """The row, one order below, of the n-gram without its first word; 0 for order 1."""
    occurrences: list[Integers]
    """How often the n-gram occurs; for single words, begin marks are not counted, as they are never predicted."""
    openings: list[Integers]
    """How often the n-gram occurs at the beginning of a line, with no word to its left; 0 for order 1."""

    @property
    def order(self) -> int:
        return len(self.keys)


def lines_of(column: Column, *, begin: int, end: int) -> MarkedText:
    """The lines of a store's column, each between a begin mark and an end mark."""
    lengths = column.lengths.astype(np.int64)
    starts = np.cumsum(lengths + 2) - lengths - 2
    tokens = np.empty(int((lengths + 2).sum()), dtype=np.int32)
    begins = np.zeros(len(tokens), dtype=np.bool_)
    tokens[starts] = begin
    tokens[starts + lengths + 1] = end
    begins[starts] = True
    inner = np.ones(len(tokens), dtype=np.bool_)
    inner[starts] = inner[starts + lengths + 1] = False
    tokens[inner] = column.gather(np.arange(len(lengths)))[0]
    return MarkedText(tokens, begins)


def running_text(values: NDArray[Any], *, end: int) -> MarkedText:
    """A text that already has its end marks, preceded by one more, as if a line had ended before it."""
    tokens = np.concatenate([[end], values]).astype(np.int32)
    begins = np.zeros(len(tokens), dtype=np.bool_)
    begins[0] = True
    return MarkedText(tokens, begins)


def count_ngrams(
    text: MarkedText, *, order: int, vocabulary_size: int, progress: Progress | None = None, chunk: int = CHUNK
) -> NgramCounts:
    """The counts of all n-grams of a text up to an order; no n-gram crosses the beginning of a line.

    Memory: 9 bytes per token of the text, 32 per n-gram, and a chunk's keys.
    """
    tokens, begins = text
    # The rows of the n-grams that start at each position.
    rows: NDArray[np.signedinteger[Any]] = tokens.astype(np.int64 if len(tokens) >> 31 else np.int32)
    words = np.bincount(tokens[~begins], minlength=vocabulary_size).astype(np.int64)
    none = np.zeros(vocabulary_size, dtype=np.int64)
    counts = NgramCounts(vocabulary_size, [np.arange(vocabulary_size)], [none], [words], [none])
    for length in range(2, order + 1):
        if progress is not None:
            progress(f"counting {length}-grams")

        def chunks(length: int = length) -> Iterator[tuple[slice, Integers]]:
            """Yields each part of the text, and the keys of the n-grams that start at its positions; −1 for none."""
            for start in range(0, len(tokens) - length + 1, chunk):
                part = slice(start, min(start + chunk, len(tokens) - length + 1))
                last = slice(part.start + length - 1, part.stop + length - 1)
                keys = rows[part].astype(np.int64) * vocabulary_size + tokens[last]
                keys[(rows[part] < 0) | begins[last]] = -1
                yield part, keys

        keys, occurrences = _merged_counts(_sorted_counts(keys[keys >= 0]) for _, keys in chunks())
        for part, part_keys in chunks():
            found = np.searchsorted(keys, part_keys)
            rows[part] = np.where(part_keys < 0, -1, found)
        rows[max(0, len(tokens) - length + 1) :] = -1
        opening = rows[begins]
        counts.suffixes.append(_suffixes(counts, keys))
        counts.keys.append(keys)
        counts.occurrences.append(occurrences)
        counts.openings.append(np.bincount(opening[opening >= 0], minlength=len(keys)).astype(np.int64))
    return counts


def _suffixes(counts: NgramCounts, keys: Integers) -> Integers:
    """For each n-gram of order n, the row of its suffix (all words but the first) in the table of order n − 1.

    `keys` identify the n-grams: row of the prefix · vocabulary size + last word. `counts` has all orders below n. The
    suffix of (prefix, word) is (suffix of prefix, word).
    """
    prefixes, words = np.divmod(keys, counts.vocabulary_size)
    if counts.order == 1:
        return words
    suffixes: Integers = np.searchsorted(
        counts.keys[-1], counts.suffixes[-1][prefixes] * counts.vocabulary_size + words
    )
    return suffixes


def _sorted_counts(keys: Integers) -> tuple[Integers, Integers]:
    """The distinct keys, ascending, and how often each occurs."""
    ascending = np.sort(keys)
    starts = np.flatnonzero(np.diff(ascending, prepend=-1))
    return ascending[starts], np.diff(starts, append=len(keys))


def _merged_counts(parts: Iterator[tuple[Integers, Integers]]) -> tuple[Integers, Integers]:
    """The distinct keys of all (keys, counts) in `parts`, and their total counts; merges parts of similar size."""
    levels = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))]
    for part in parts:
        levels.append(part)
        while len(levels) > 1 and len(levels[-2][0]) < 2 * len(levels[-1][0]):
            levels.append(_sum_of(levels.pop(), levels.pop()))
    while len(levels) > 1:
        levels.append(_sum_of(levels.pop(), levels.pop()))
    return levels[0]


def _sum_of(first: tuple[Integers, Integers], second: tuple[Integers, Integers]) -> tuple[Integers, Integers]:
    keys, counts = (np.concatenate(pair) for pair in zip(first, second, strict=True))
    order = np.argsort(keys, kind="stable")  # merges two runs in linear time
    keys, counts = keys[order], counts[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[starts], np.add.reduceat(counts, starts) if len(starts) else counts
