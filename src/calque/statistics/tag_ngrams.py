"""n-grams of tags, interpolated: the transitions of a hidden Markov tagger (Brants 2000, §2.2).

Letters: E tags, of which the last one is the boundary before and after each sentence; n the order of the model.
"""

from typing import NamedTuple

import numpy as np

from calque.data.store import Array
from calque.statistics.cooccurrence import Floats


class TagNgrams(NamedTuple):
    """P(tag | the n−1 tags before it), and the interpolation weight of each order."""

    probabilities: Floats  # [E] · n; the last axis is the tag that is predicted
    weights: tuple[float, ...]  # λ of unigrams, bigrams, trigrams


def count_ngrams(tags: Array, lengths: Array, *, tag_count: int, order: int) -> Floats:
    """The counts of tag n-grams: an array with n = `order` axes, each of size E = `tag_count`.

    `tag_count` includes the boundary, which is the last tag. n−1 boundaries precede a sentence, and one follows it.

    `tags` holds the tags of all sentences, one after the other; `lengths` are the lengths of the sentences.
    """
    boundary, before = tag_count - 1, order - 1
    starts = np.cumsum(lengths + order) - (lengths + order) + before  # of the words of each sentence, with boundaries
    padded = np.full(int((lengths + order).sum()), boundary, dtype=np.int64)
    words = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(len(tags))
    padded[words] = tags
    predicted = np.sort(np.concatenate([words, starts + lengths]))
    keys = np.zeros(len(predicted), dtype=np.int64)
    for distance in reversed(range(order)):
        keys = keys * tag_count + padded[predicted - distance]
    counts: Floats = np.bincount(keys, minlength=tag_count**order).reshape((tag_count,) * order).astype(np.float64)
    return counts


def interpolated(counts: Floats) -> TagNgrams:
    """Relative frequencies of n-grams, (n−1)-grams, … unigrams, interpolated, given their counts (`count_ngrams`).

        P(t₃ | t₁, t₂) = λ₁ P̂(t₃) + λ₂ P̂(t₃ | t₂) + λ₃ P̂(t₃ | t₁, t₂)

    Where a context was never seen, the frequencies of the next shorter one are used, and one is added to the count of
    each unigram, so that every context has a distribution without zeros; in the paper, such frequencies are 0.
    """
    weights = interpolation_weights(counts)
    probabilities = np.zeros_like(counts)
    frequencies = np.zeros(0)
    for order, weight in enumerate(weights, start=1):
        ngrams = _shortened(counts, order) + (order == 1)
        totals = ngrams.sum(axis=-1, keepdims=True)
        shorter = np.broadcast_to(frequencies, ngrams.shape).copy() if order > 1 else ngrams
        frequencies = np.divide(ngrams, totals, out=shorter, where=totals > 0)
        probabilities += weight * frequencies
    return TagNgrams(probabilities, weights)


def interpolation_weights(counts: Floats) -> tuple[float, ...]:
    """λ of each order by deleted interpolation (Brants 2000, figure 1).

    Each n-gram votes, as often as it occurs, for the order that predicts it best when this one occurrence is left out
    of all counts; ties go to the shorter n-gram. Each order has one vote more, so that no weight is 0.
    """
    orders = range(1, counts.ndim + 1)
    frequencies = []
    for order in orders:
        ngrams = _shortened(counts, order)
        totals = ngrams.sum(axis=-1, keepdims=True)
        held_out = np.divide(ngrams - 1, totals - 1, out=np.zeros_like(ngrams), where=totals > 1)
        frequencies.append(np.broadcast_to(held_out, counts.shape))
    best = np.argmax(np.stack(frequencies), axis=0)
    votes = np.bincount(best.ravel(), weights=counts.ravel(), minlength=len(orders)) + 1
    return tuple((votes / votes.sum()).tolist())


def _shortened(counts: Floats, order: int) -> Floats:
    """The counts of n-grams of only `order` tags: `counts` of longer n-grams, summed over their first tags."""
    shorter: Floats = counts.sum(axis=tuple(range(counts.ndim - order)))
    return shorter
