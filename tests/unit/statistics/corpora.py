"""Small corpora of random words, and corpora whose words translate each other."""

import numpy as np

from calque.data.store import Column


def column(rows: list[list[int]]) -> Column:
    """Rows of ids, with an end mark after each, as in a store."""
    lengths = np.array([len(row) for row in rows], dtype=np.uint32)
    values = np.array([word for row in rows for word in (*row, 0)], dtype=np.uint16)
    starts = np.concatenate([[0], np.cumsum(lengths.astype(np.int64) + 1)[:-1]]) if rows else np.zeros(0)
    return Column(values, starts.astype(np.uint64), lengths)


def random_corpus(seed: int, *, pairs: int = 60, words: int = 6, longest: int = 6) -> tuple[Column, Column]:
    """Pairs of random words, empty sides included."""
    random = np.random.default_rng(seed)
    source, target = (
        [random.integers(0, words, random.integers(0, longest + 1)).tolist() for _ in range(pairs)] for _ in range(2)
    )
    return column(source), column(target)


def translated(seed: int, *, pairs: int = 400, words: int = 40, drop: float = 0.0) -> tuple[Column, Column, list[set]]:
    """Pairs in which word w is translated by w + 100, two neighbours are sometimes swapped, and the true links."""
    random = np.random.default_rng(seed)
    sources, targets, gold = [], [], []
    for _ in range(pairs):
        source = random.permutation(words)[: random.integers(2, 9)]
        order = list(range(len(source)))
        if random.random() < 0.3:
            first = random.integers(0, len(order) - 1)
            order[first], order[first + 1] = order[first + 1], order[first]
        order = [place for place in order if random.random() >= drop] or order
        sources.append(source.tolist())
        targets.append([int(source[place]) + 100 for place in order])
        gold.append({(place, position) for position, place in enumerate(order)})
    return column(sources), column(targets), gold
