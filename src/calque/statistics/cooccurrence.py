"""The co-occurrences of words in a parallel corpus, laid out so that EM over all of them is a few array operations.

Letters: B pairs, I source words, J target words. A *cell* is a target word and a source word of the same pair, or a
target word and the empty word. An *entry*, a parameter t(target | source), is a pair of word types with at least one
cell.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.data.store import Array, Column

Floats = NDArray[np.float64]

MAXIMUM = 256  # words of a sentence; longer ones, whose cells grow with the square, are left out
BLOCK_CELLS = 1 << 20  # whose entries fit into a processor's cache
CHUNK_CELLS = 1 << 17


class Chunk(NamedTuple):
    """Sentence pairs with the same number of source words and the same number of target words."""

    pairs: Array  # [B], indices of rows of the corpus
    sources: int  # I
    targets: int  # J
    start: int  # where its cells begin in those of its block

    def cells(self, values: NDArray[Any]) -> NDArray[Any]:
        """The part of a block's `values` that belongs to this chunk, as a view [J,B,1+I]; column 0: the empty word."""
        shape = self.targets, len(self.pairs), 1 + self.sources
        return values[self.start : self.start + int(np.prod(shape))].reshape(shape)


class Block(NamedTuple):
    """Chunks of sentence pairs, with the table entry of each cell, that is, of each pair of a target and a source word.

    Each entry that a block uses is listed once and in order, so that the table of all entries, which is larger than any
    CPU cache, is read and written only once per block.
    """

    chunks: tuple[Chunk, ...]
    entries: Array  # distinct, ascending
    cells: Array  # indices into `entries`

    def gather(self, table: Floats) -> Floats:
        """The value of each cell (two words of a pair), looked up in a table with one value per pair of word types."""
        values: Floats = table[self.entries][self.cells]
        return values

    def add(self, table: Floats, values: Floats) -> None:
        """Adds the value of each cell (two words of a pair) to the entry of its word types in the table."""
        table[self.entries] += np.bincount(self.cells, weights=values, minlength=len(self.entries))


class Cooccurrences(NamedTuple):
    """The pairs of word types that co-occur in a corpus, sorted by source, then target; and their occurrences."""

    offsets: Array  # [sources + 2]; the last row is that of the empty word
    targets: Array  # [entries]
    blocks: tuple[Block, ...]
    words: int
    """The number of target words in the pairs that are not left out."""

    @property
    def chunks(self) -> Iterator[Chunk]:
        """The chunks of all blocks."""
        return (chunk for block in self.blocks for chunk in block.chunks)

    @property
    def pairs(self) -> int:
        """The number of sentence pairs, without those that `cooccurrences` left out."""
        return sum(len(chunk.pairs) for chunk in self.chunks)

    def normalise(self, table: Floats) -> None:
        """Divides each value of the table by the sum of all values with the same source word, in place."""
        table /= self._totals(table)

    def expect(self, table: Floats, *, dirichlet: float) -> None:
        """Replaces counts c(f, e) by exp E[log t(f | e)] under their Dirichlet posterior, in place (Beal 2003, §3.4).

        exp(ψ(c(f, e) + α) − ψ(Σ_f' (c(f', e) + α))), where f' are the words that occur with e and α is `dirichlet`.
        """
        table += dirichlet
        np.exp(digamma(table) - digamma(self._totals(table)), out=table)

    def _totals(self, table: Floats) -> Floats:
        """For each value of `table` (one per pair of word types), the sum of all values with its source word."""
        lengths = np.diff(self.offsets)
        rows = np.flatnonzero(lengths)
        if not len(rows):
            return np.zeros_like(table)
        totals: Floats = np.repeat(np.add.reduceat(table, self.offsets[rows]), lengths[rows])
        return totals


def cooccurrences(
    source: Column, target: Column, *, sources: int | None = None, targets: int | None = None, maximum: int = MAXIMUM
) -> Cooccurrences:
    """The co-occurrences of words in a corpus in which row n of `target` translates row n of `source`.

    `sources` and `targets` are the sizes of the vocabularies, by default inferred from the largest ids. Pairs with an
    empty side, or with more than `maximum` words on a side, are left out.
    """
    sources = _size(source) if sources is None else sources
    targets = _size(target) if targets is None else targets
    drafts: list[tuple[tuple[Chunk, ...], Array, Array]] = []
    words = 0
    for chunks in _layout(source.lengths.astype(np.int64), target.lengths.astype(np.int64), maximum=maximum):
        keys = np.concatenate([_keys(chunk, source, target, empty=sources, targets=targets) for chunk in chunks])
        drafts.append((chunks, *_distinct(keys)))
        words += sum(len(chunk.pairs) * chunk.targets for chunk in chunks)
    entries = _union([distinct for _, distinct, _ in drafts])
    dtype = np.int32 if len(entries) < 1 << 31 else np.int64
    blocks = []
    while drafts:  # each draft is dropped as soon as its block is made
        chunks, distinct, cells = drafts.pop()
        blocks.append(Block(chunks, np.searchsorted(entries, distinct).astype(dtype), cells))
    offsets = np.searchsorted(entries, np.arange(sources + 2) * targets)
    return Cooccurrences(offsets, (entries % max(1, targets)).astype(np.int32), tuple(reversed(blocks)), words)


def digamma(values: Floats) -> Floats:
    """ψ(x) = d log Γ(x) / dx for x > 0: its recurrence ψ(x) = ψ(x+1) − 1/x up to 6, then its asymptotic series."""
    shifted, result = values.astype(np.float64), np.zeros(values.shape)
    for _ in range(6):
        small = shifted < 6
        result -= np.divide(small, shifted)
        shifted += small
    square = 1 / (shifted * shifted)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square * (1 / 132)))))
    result += np.log(shifted) - 0.5 / shifted - series
    return result


def _size(column: Column) -> int:
    """The vocabulary size that a column implies: one more than its largest id, or 0 if it has no ids."""
    return int(column.values.max()) + 1 if len(column.values) else 0


def _layout(sources: Array, targets: Array, *, maximum: int) -> Iterator[tuple[Chunk, ...]]:
    """Yields blocks of chunks of sentence pairs with equal lengths (`sources`, `targets`), shorter sources first."""
    shortest, longest = np.minimum(sources, targets), np.maximum(sources, targets)
    kept = np.flatnonzero((shortest > 0) & (longest <= maximum))
    order = kept[np.lexsort((targets[kept], sources[kept]))]
    shapes = np.stack([sources[order], targets[order]], axis=1)
    starts = np.flatnonzero(np.any(np.diff(shapes, axis=0, prepend=-1) != 0, axis=1))
    chunks: list[Chunk] = []
    size = 0
    for group in np.split(order, starts[1:]):
        if not len(group):  # an empty corpus
            continue
        width, height = int(sources[group[0]]), int(targets[group[0]])
        cells = (width + 1) * height
        count = max(1, CHUNK_CELLS // cells)
        for first in range(0, len(group), count):
            pairs = group[first : first + count]
            chunks.append(Chunk(pairs, width, height, size))
            size += len(pairs) * cells
            if size >= BLOCK_CELLS:
                yield tuple(chunks)
                chunks, size = [], 0
    if chunks:
        yield tuple(chunks)


def _keys(chunk: Chunk, source: Column, target: Column, *, empty: int, targets: int) -> Array:
    """For each source word (or `empty`) and target word of a sentence pair, their key: source · `targets` + target."""
    source_ids = source.gather(chunk.pairs)[0].astype(np.int64).reshape(len(chunk.pairs), chunk.sources)
    target_ids = target.gather(chunk.pairs)[0].astype(np.int64).reshape(len(chunk.pairs), chunk.targets)
    with_empty = np.pad(source_ids, ((0, 0), (1, 0)), constant_values=empty)
    return (with_empty * targets + target_ids.T[:, :, None]).ravel()


def _distinct(keys: Array) -> tuple[Array, Array]:
    """The distinct keys, ascending, and for each key its index among them.

    If a key and its position fit into 63 bits, they are packed into one number: sorting these numbers takes half as
    long as an argsort of the keys.
    """
    bits = len(keys).bit_length()
    if int(keys.max()) >> (63 - bits):
        distinct, indices = np.unique(keys, return_inverse=True)
        return distinct, indices.astype(np.int32)
    packed = np.sort(keys << bits | np.arange(len(keys)))
    ascending = packed >> bits
    is_new = np.concatenate([[True], ascending[1:] != ascending[:-1]])
    indices = np.empty(len(keys), dtype=np.int32)
    indices[packed & ((1 << bits) - 1)] = np.cumsum(is_new, dtype=np.int32) - 1
    return ascending[is_new], indices


def _union(sets: list[Array]) -> Array:
    """The union of ascending arrays; arrays of similar size are merged first, so that elements are rarely copied."""
    levels: list[Array] = [np.empty(0, dtype=np.int64)]
    for keys in sets:
        levels.append(keys)
        while len(levels) > 1 and len(levels[-2]) < 2 * len(levels[-1]):
            levels.append(_merged(levels.pop(), levels.pop()))
    while len(levels) > 1:
        levels.append(_merged(levels.pop(), levels.pop()))
    return levels[0]


def _merged(first: Array, second: Array) -> Array:
    """The distinct elements of two ascending arrays, ascending; `np.union1d` takes a hundred times as long."""
    both = np.sort(np.concatenate([first, second]), kind="stable")  # merges two runs in linear time
    return both[np.concatenate([[True], both[1:] != both[:-1]])] if len(both) else both
