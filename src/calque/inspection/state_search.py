"""Exact nearest-neighbour search among states, in constant memory.

Letters: N states, D width, C states of a chunk, Q queries.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.inspection.projection import CHUNK, chunks

Array = NDArray[Any]

Metric = Literal["euclidean", "cosine"]
"""Euclidean distance, or cosine distance, 1 − cos of the angle; a zero vector has cosine distance 1 from all others."""


class Nearest(NamedTuple):
    """The k states nearest to every query, nearest first; ties go to the state with the lower index."""

    indices: Array  # [Q,k], k = N if there are fewer states
    distances: Array  # [Q,k], float64


def nearest(states: Array, queries: Array, *, count: int, metric: Metric = "euclidean", chunk: int = CHUNK) -> Nearest:
    """The `count` states [N,D] that are nearest to each query [Q,D].

    A matrix product gives the distances of a chunk of states up to rounding. For states that might be among the
    nearest, the distance is computed again, one by one, so that equal states have equal distances.
    """
    queries = _prepared(np.asarray(queries, dtype=np.float64), metric=metric)
    best = [(np.zeros(0, dtype=np.int64), np.zeros(0)) for _ in queries]
    start = 0
    for raw in chunks(states, size=chunk):
        part = _prepared(raw, metric=metric)
        rounded, slack = _rounded(part, queries, metric=metric)
        for place, query in enumerate(queries):
            indices, values = best[place]
            bound = values[-1] if len(values) == count else np.inf
            if len(part) >= count:
                bound = min(bound, np.partition(rounded[place], count - 1)[count - 1] + slack[place])
            near = np.flatnonzero(rounded[place] <= bound + slack[place])
            exact = _exact(part[near], query, metric=metric)
            best[place] = _lowest(np.concatenate([indices, near + start]), np.concatenate([values, exact]), count=count)
        start += len(part)
    indices = np.stack([indices for indices, _ in best]) if best else np.zeros((0, 0), dtype=np.int64)
    values = np.stack([values for _, values in best]) if best else np.zeros((0, 0))
    return Nearest(indices, np.sqrt(values) if metric == "euclidean" else np.maximum(values, 0))


def _prepared(vectors: Array, *, metric: Metric) -> Array:
    """The vectors; for cosine distance, normalised to length 1 (zero vectors stay zero)."""
    if metric == "euclidean":
        return vectors
    lengths = np.sqrt(np.square(vectors).sum(axis=1, keepdims=True))
    units: Array = vectors / np.where(lengths > 0, lengths, 1)
    return units


def _rounded(part: Array, queries: Array, *, metric: Metric) -> tuple[Array, Array]:
    """Distances [Q,C] of Q queries to C states (squared Euclidean or 1 − cos), and a bound [Q] on rounding errors."""
    sizes, query_sizes = np.square(part).sum(axis=1), np.square(queries).sum(axis=1)
    products = queries @ part.T
    slack = 8 * (part.shape[1] + 4) * np.finfo(np.float64).eps * (sizes.max(initial=0) + query_sizes + 1)
    if metric == "euclidean":
        return sizes - 2 * products + query_sizes[:, None], slack
    return 1 - products, slack


def _exact(part: Array, query: Array, *, metric: Metric) -> Array:
    """Distances [C] of C states to a query (squared Euclidean or 1 − cos); equal states have equal distances."""
    values: Array = np.square(part - query).sum(axis=1) if metric == "euclidean" else 1 - (part * query).sum(axis=1)
    return values


def _lowest(indices: Array, values: Array, *, count: int) -> tuple[Array, Array]:
    order = np.lexsort((indices, values))[:count]
    return indices[order], values[order]
