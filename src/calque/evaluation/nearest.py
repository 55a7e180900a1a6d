"""Exact search for the nearest vectors: computes the inner products with all vectors, in blocks.

Letters: Q queries, N vectors of the corpus, W width, K neighbours.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

QUERIES, VECTORS = 256, 8192
"""The number of queries, and of corpus vectors, that are multiplied at a time."""


class Neighbours(NamedTuple):
    """The nearest vectors of each query, nearest first; equally near vectors are in the order of the corpus."""

    indices: Array  # [Q,K]
    scores: Array  # [Q,K]


def normalised(vectors: Array) -> Array:
    """The vectors [N,W] divided by their lengths, so that inner products are cosines; zero vectors stay zero."""
    exact = np.asarray(vectors, dtype=np.float64)
    lengths = np.sqrt((exact * exact).sum(axis=-1, keepdims=True))
    unit: Array = (exact / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return unit


def similarities(queries: Array, corpus: Array) -> Array:
    """The inner products [Q,N] of every query with every vector of the corpus.

    They are summed in float64 and rounded to float32, so that they do not depend on the size of the blocks, and equal
    vectors are equally near.
    """
    products: Array = (np.asarray(queries, dtype=np.float64) @ np.asarray(corpus, dtype=np.float64).T).astype(
        np.float32
    )
    return products


def nearest(queries: Array, corpus: Array, *, top: int, block: int = VECTORS) -> Neighbours:
    """The `top` vectors of the corpus [N,W] that have the largest inner products with each query [Q,W].

    Memory does not grow with the corpus, which may be mapped from a file.
    """
    found = [_nearest(queries[at], corpus, top=min(top, len(corpus)), block=block) for at in _slices(len(queries))]
    if not found:
        empty = np.zeros((0, min(top, len(corpus))))
        return Neighbours(empty.astype(np.int64), empty.astype(np.float32))
    return Neighbours(np.concatenate([part.indices for part in found]), np.concatenate([part.scores for part in found]))


def _nearest(queries: Array, corpus: Array, *, top: int, block: int) -> Neighbours:
    indices, scores = np.zeros((len(queries), 0), dtype=np.int64), np.zeros((len(queries), 0), dtype=np.float32)
    for start in range(0, len(corpus), block):
        products = similarities(queries, corpus[start : start + block])
        columns = _largest(products, count=min(top, products.shape[1]))
        indices = np.concatenate([indices, start + columns], axis=1)
        scores = np.concatenate([scores, np.take_along_axis(products, columns, axis=1)], axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :top]  # earlier indices stand to the left
        indices, scores = np.take_along_axis(indices, order, axis=1), np.take_along_axis(scores, order, axis=1)
    return Neighbours(indices, scores)


def _largest(scores: Array, *, count: int) -> Array:
    """For each row of scores [Q,N], the indices of the `count` largest, left to right: [Q,count]. Ties go left."""
    if not count:
        return np.zeros((len(scores), 0), dtype=np.int64)
    least = np.partition(scores, -count, axis=1)[:, -count, None]
    is_larger, is_least = scores > least, scores == least
    missing = count - is_larger.sum(axis=1, keepdims=True)
    is_chosen = is_larger | (is_least & (is_least.cumsum(axis=1) <= missing))
    return np.nonzero(is_chosen)[1].reshape(len(scores), count)


def _slices(rows: int) -> Iterator[slice]:
    return (slice(start, start + QUERIES) for start in range(0, rows, QUERIES))
