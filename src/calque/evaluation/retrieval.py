"""Scores of retrieval: how each sentence's partner (the other sentence of its pair) ranks among all on that side.

Letters: N pairs, W width of the vectors, Q queries of a block.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.evaluation.nearest import QUERIES, similarities

Array = NDArray[Any]


class Retrieval(NamedTuple):
    """The quality of retrieval in one direction, in %."""

    top1: float
    top5: float
    mrr: float
    """The mean of 1/rank, in %."""


class BothDirections(NamedTuple):
    """The quality of retrieval in both directions of a set of pairs."""

    to_target: Retrieval
    to_source: Retrieval

    @property
    def mean(self) -> Retrieval:
        return Retrieval(*((there + back) / 2 for there, back in zip(*self, strict=True)))


class Ranks(NamedTuple):
    """The rank [N] of each sentence's partner, in both directions; 1 is the best."""

    to_target: Array
    to_source: Array

    @property
    def scores(self) -> BothDirections:
        return BothDirections(score_ranks(self.to_target), score_ranks(self.to_source))


def score_ranks(ranks: Array) -> Retrieval:
    """Top-1 and top-5 accuracy and the mean reciprocal rank, in %, given ranks [N]."""
    if not len(ranks):
        return Retrieval(0.0, 0.0, 0.0)
    return Retrieval(*(100 * float(np.mean(values)) for values in (ranks <= 1, ranks <= 5, 1 / ranks)))


def partner_ranks(
    source: Array,
    target: Array,
    *,
    sources: Sequence[str],
    targets: Sequence[str],
    poll: Callable[[], None] | None = None,
) -> Ranks:
    """The rank of each sentence's partner, given vectors [N,W] of both sides; partners have the same row.

    Sentences with the same text as the partner never rank ahead of it. Equally near sentences rank by row number.
    `poll` is called before each block of queries and may raise an exception.
    """
    return Ranks(
        _ranks(source, target, numbers=_numbers(targets), poll=poll),
        _ranks(target, source, numbers=_numbers(sources), poll=poll),
    )


def equal_texts(sources: Sequence[str], targets: Sequence[str]) -> Array:
    """A mask [N,N], true where two pairs have the same source or target, so that neither is a negative of the other."""
    sides = (_numbers(sources), _numbers(targets))
    return np.logical_or(*(numbers[:, None] == numbers for numbers in sides))  # type: ignore[no-any-return]


def _ranks(queries: Array, corpus: Array, *, numbers: Array, poll: Callable[[], None] | None) -> Array:
    columns = np.arange(len(corpus))
    ranks = []
    for start in range(0, len(queries), QUERIES):
        if poll is not None:
            poll()
        scores = similarities(queries[start : start + QUERIES], corpus)
        rows = columns[start : start + QUERIES]
        own = scores[np.arange(len(scores)), rows][:, None]
        is_before = (scores > own) | ((scores == own) & (columns < rows[:, None]))
        is_other = numbers != numbers[rows][:, None]
        ranks.append(1 + (is_before & is_other).sum(axis=1))
    return np.concatenate([np.zeros(0, dtype=np.int64), *ranks])


def _numbers(texts: Sequence[str]) -> Array:
    """A number for each text; equal texts have equal numbers."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int64)
