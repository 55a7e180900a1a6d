"""Exact search against a plain sort of all similarities."""

import numpy as np
import pytest

from calque.evaluation.nearest import QUERIES, nearest, normalised, similarities


@pytest.mark.parametrize("block", [1, 7, 1000])
@pytest.mark.parametrize("top", [1, 5, 13, 100])
def test_the_nearest_are_those_of_a_plain_sort(seed: int, block: int, top: int) -> None:
    """Small whole numbers have many equal products, so that ties are tested too."""
    generator = np.random.default_rng(seed)
    queries, corpus = (generator.integers(-2, 3, (rows, 4)).astype(np.float32) for rows in (9, 61))
    found = nearest(queries, corpus, top=top, block=block)
    assert found.indices.shape == found.scores.shape == (9, min(top, 61))
    for query, indices, scores in zip(queries, found.indices, found.scores, strict=True):
        products = [(-float(query @ vector), index) for index, vector in enumerate(corpus)]
        expected = sorted(products)[:top]
        assert indices.tolist() == [index for _, index in expected]
        assert scores.tolist() == [-product for product, _ in expected]


def test_results_do_not_depend_on_blocks_or_other_queries(seed: int) -> None:
    generator = np.random.default_rng(seed)
    queries, corpus = (generator.standard_normal((rows, 33)).astype(np.float32) for rows in (QUERIES + 5, 500))
    corpus[200:400] = corpus[:200]  # every second neighbour is a tie
    whole = nearest(queries, corpus, top=6)
    for block in (3, 64):
        assert np.array_equal(nearest(queries, corpus, top=6, block=block).indices, whole.indices)
    alone = nearest(queries[QUERIES + 1 : QUERIES + 2], corpus, top=6)
    assert np.array_equal(alone.indices[0], whole.indices[QUERIES + 1])
    assert np.array_equal(alone.scores[0], whole.scores[QUERIES + 1])


def test_nothing_to_search_and_nothing_to_find() -> None:
    vectors = np.ones((3, 2), dtype=np.float32)
    assert nearest(vectors[:0], vectors, top=2).indices.shape == (0, 2)
    assert nearest(vectors, vectors[:0], top=2).indices.shape == (3, 0)


def test_normalised_vectors_have_length_one_and_zero_stays_zero() -> None:
    unit = normalised(np.array([[3.0, 4.0], [0.0, 0.0], [1e-30, 0.0], [3e38, 3e38]], dtype=np.float32))
    assert np.allclose(unit, [[0.6, 0.8], [0, 0], [1, 0], [2**-0.5, 2**-0.5]])
    assert unit.dtype == np.float32 and similarities(unit, unit).dtype == np.float32
