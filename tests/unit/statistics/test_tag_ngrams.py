"""n-grams of tags: counts against loops, weights against Brants's pseudo-code, and that they are probabilities."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from calque.statistics.tag_ngrams import count_ngrams, interpolated, interpolation_weights

TAGS = 5  # the last one is the boundary


def sentences(seed: int, *, count: int = 25) -> list[list[int]]:
    """Tag 3 never occurs."""
    random = np.random.default_rng(seed)
    return [(random.integers(0, 6, random.integers(1, 8)) // 2).tolist() for _ in range(count)]


def counted(rows: list[list[int]], *, order: int) -> Counter[tuple[int, ...]]:
    counts = Counter[tuple[int, ...]]()
    for row in rows:
        padded = [TAGS - 1] * (order - 1) + row + [TAGS - 1]
        counts.update(tuple(padded[place : place + order]) for place in range(len(padded) - order + 1))
    return counts


def table(rows: list[list[int]], *, order: int) -> np.ndarray:
    flat = np.array([tag for row in rows for tag in row])
    return count_ngrams(flat, np.array([len(row) for row in rows]), tag_count=TAGS, order=order)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_counts_equal_loops(order: int, seed: int) -> None:
    rows = sentences(seed)
    counts, expected = table(rows, order=order), counted(rows, order=order)
    for ngram in product(range(TAGS), repeat=order):
        assert counts[ngram] == expected[ngram]


def test_the_weights_are_those_of_the_papers_pseudo_code(seed: int) -> None:
    """Figure 1 of Brants (2000), with counts as dictionaries."""
    rows = sentences(seed)
    trigrams = counted(rows, order=3)
    bigrams, unigrams, contexts, tags = (Counter[tuple[int, ...]]() for _ in range(4))
    for (first, second, third), count in trigrams.items():
        bigrams[second, third] += count
        unigrams[third,] += count
        contexts[first, second] += count
        tags[second,] += count
    total = sum(trigrams.values())
    weights = [1.0, 1.0, 1.0]  # 0 in the paper
    for (first, second, third), count in trigrams.items():
        cases = [
            (unigrams[third,] - 1) / (total - 1),
            (bigrams[second, third] - 1) / (tags[second,] - 1) if tags[second,] > 1 else 0,
            (count - 1) / (contexts[first, second] - 1) if contexts[first, second] > 1 else 0,
        ]
        weights[cases.index(max(cases))] += count
    assert interpolation_weights(table(rows, order=3)) == pytest.approx([weight / (total + 3) for weight in weights])


@pytest.mark.parametrize("order", [1, 2, 3])
def test_every_context_has_a_distribution_without_zeros(order: int, seed: int) -> None:
    ngrams = interpolated(table(sentences(seed), order=order))
    assert ngrams.probabilities.shape == (TAGS,) * order and len(ngrams.weights) == order
    assert (ngrams.probabilities > 0).all() and sum(ngrams.weights) == pytest.approx(1)
    np.testing.assert_allclose(ngrams.probabilities.sum(axis=-1), 1)


def test_trigrams_are_interpolated_and_back_off(seed: int) -> None:
    """The paper's formula where the context was seen; 3 never occurs as a context, (2, 3) neither."""
    counts = table(sentences(seed), order=3)
    probabilities, (one, two, three) = interpolated(counts)
    total = counts.sum()
    unigram = (counts.sum(axis=(0, 1)) + 1) / (total + TAGS)
    for context in product(range(TAGS), repeat=2):
        bigrams = counts.sum(axis=0)[context[1]]
        bigram = bigrams / bigrams.sum() if bigrams.any() else unigram
        trigram = counts[context] / counts[context].sum() if counts[context].any() else bigram
        np.testing.assert_allclose(probabilities[context], one * unigram + two * bigram + three * trigram)
    np.testing.assert_allclose(probabilities[2, 3], unigram)


def test_tags_that_follow_each_other_strictly_have_no_zeros() -> None:
    """0 1 2 0 1 2 …: unigrams and bigrams never predict better than trigrams do."""
    probabilities = interpolated(table([[0, 1, 2] * 3] * 50, order=3)).probabilities
    assert (probabilities > 0).all() and probabilities[0, 1, 2] > 0.9


def test_an_empty_corpus() -> None:
    empty = count_ngrams(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), tag_count=TAGS, order=3)
    np.testing.assert_allclose(interpolated(empty).probabilities, 1 / TAGS)
