"""Phrase extraction: all pairs of phrases that are consistent with a word alignment (Koehn et al. 2003, §4.1).

A source span and a target span form a phrase pair if there is a link between them, and no link from a word inside one
of them to a word outside the other. Unaligned words at the edges may belong to the phrase or not, so there is a pair
for each choice (Och and Ney 2004).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from calque.data.store import Array, Column

MAXIMUM = 7
"""The default maximum number of words in a phrase."""


class AlignedCorpus(NamedTuple):
    """The words of all sentences one after another, and the links between them, by their positions in the corpus."""

    source: Array  # [N], ids
    target: Array  # [M]
    source_remaining: Array  # [N]: the number of words from each one to the end of its sentence
    target_remaining: Array  # [M]
    links: Array  # [L,2]: the positions of a source word and of a target word

    def turned(self) -> "AlignedCorpus":
        """The corpus with source and target exchanged."""
        return AlignedCorpus(
            self.target, self.source, self.target_remaining, self.source_remaining, self.links[:, ::-1]
        )


class Occurrences(NamedTuple):
    """Phrase pairs in a corpus: each span by the position of its first word and its number of words."""

    source: Array
    source_length: Array
    target: Array
    target_length: Array


def aligned_corpus(source: Column, target: Column, links: Sequence[Sequence[tuple[int, int]]]) -> AlignedCorpus:
    """A corpus whose pair n has the links (source word, target word) of `links[n]`."""
    rows = np.arange(len(links))
    source_ids, source_lengths = source.gather(rows)
    target_ids, target_lengths = target.gather(rows)
    starts = np.stack([np.cumsum(lengths) - lengths for lengths in (source_lengths, target_lengths)], axis=1)
    counts = [len(pair) for pair in links]
    flat = np.array([link for pair in links for link in pair], dtype=np.int64).reshape(-1, 2)
    return AlignedCorpus(
        source_ids,
        target_ids,
        _remaining(source_lengths),
        _remaining(target_lengths),
        flat + np.repeat(starts, counts, axis=0),
    )


def extract_phrases(corpus: AlignedCorpus, *, maximum: int = MAXIMUM) -> Occurrences:
    """The phrase pairs of a corpus, with at most `maximum` words on each side.

    All source spans of the same length are processed together. The linked words of a span form the smallest target span
    that it can be paired with; the pair is consistent if the words linked to that target span lie in the source span.
    """
    first, last = _linked_range(corpus.links, of=0, size=len(corpus.source))
    back_first, back_last = _linked_range(corpus.links, of=1, size=len(corpus.target))
    back_firsts, back_lasts = (
        np.stack([np.full(len(corpus.target), default), *_windows(values, combine=combine, maximum=maximum)])
        for values, default, combine in ((back_first, 0, np.minimum), (back_last, 0, np.maximum))
    )
    before, after = _unaligned_runs(back_last < 0, corpus.target_remaining)
    found: list[Occurrences] = []
    firsts = _windows(first, combine=np.minimum, maximum=maximum)
    lasts = _windows(last, combine=np.maximum, maximum=maximum)
    for length, (low, high) in enumerate(zip(firsts, lasts, strict=True), start=1):
        starts = np.flatnonzero((corpus.source_remaining >= length) & (high >= 0))
        starts = starts[high[starts] - low[starts] < maximum]
        low, high = low[starts], high[starts]
        inside = (back_firsts[high - low + 1, low] >= starts) & (back_lasts[high - low + 1, low] < starts + length)
        starts, low, high = starts[inside], low[inside], high[inside]
        for left in range(maximum):
            for right in range(maximum - left):
                kept = np.flatnonzero(
                    (before[low] >= left) & (after[high] >= right) & (high - low + 1 + left + right <= maximum)
                )
                if len(kept):
                    lengths = high[kept] - low[kept] + 1 + left + right
                    found.append(Occurrences(starts[kept], np.full(len(kept), length), low[kept] - left, lengths))
    if not found:
        return Occurrences(*(np.zeros(0, dtype=np.int64) for _ in range(4)))
    return Occurrences(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _remaining(lengths: Array) -> Array:
    """For each word of sentences with these `lengths`, the number of words from it (included) to the sentence's end."""
    ends = np.cumsum(lengths)
    remaining: Array = np.repeat(ends, lengths) - np.arange(int(lengths.sum()))
    return remaining


def _linked_range(links: Array, *, of: int, size: int) -> tuple[Array, Array]:
    """First and last word linked to each source (`of` 0) or target word (`of` 1); a large number and −1 if none."""
    first, last = np.full(size, np.iinfo(np.int64).max), np.full(size, -1, dtype=np.int64)
    np.minimum.at(first, links[:, of], links[:, 1 - of])
    np.maximum.at(last, links[:, of], links[:, 1 - of])
    return first, last


def _windows(values: Array, *, combine: np.ufunc, maximum: int) -> Iterator[Array]:
    """Yields, for each length up to `maximum`, the minimum or maximum (`combine`) of the window from each value on.

    A window that would extend beyond the last value ends there.
    """
    current = values.copy()
    for length in range(1, maximum + 1):
        if length > 1:
            count = max(0, len(values) - length + 1)
            combine(current[:count], values[length - 1 :], out=current[:count])
        yield current.copy()


def _unaligned_runs(unaligned: Array, remaining: Array) -> tuple[Array, Array]:
    """For each word, the numbers of unaligned words directly before it and directly after it in its sentence."""
    size = len(unaligned)
    places = np.arange(size)
    ends = places + remaining  # of the sentence
    is_first = np.concatenate([[True], remaining[:-1] == 1])[:size]
    starts = np.maximum.accumulate(np.where(is_first, places, 0))
    linked = np.where(unaligned, -1, places)
    last_linked = np.concatenate([[-1], np.maximum.accumulate(linked)[:-1]])[:size]  # strictly before
    before = places - np.maximum(last_linked + 1, starts)
    linked = np.where(unaligned, size, places)
    next_linked = np.concatenate([np.minimum.accumulate(linked[::-1])[::-1][1:], [size]])[:size]
    return before, np.minimum(next_linked, ends) - places - 1
