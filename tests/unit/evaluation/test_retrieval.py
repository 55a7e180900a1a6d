"""Ranks of partners against counting, sentence by sentence."""

import numpy as np
import pytest

from calque.evaluation.retrieval import partner_ranks, score_ranks


def counted(queries: np.ndarray, corpus: np.ndarray, texts: list[str]) -> list[int]:
    ranks = []
    for row, query in enumerate(queries):
        products = [float(query @ vector) for vector in corpus]
        order = sorted(range(len(corpus)), key=lambda column: (-products[column], column))
        others = [column for column in order if column == row or texts[column] != texts[row]]
        ranks.append(1 + others.index(row))
    return ranks


def test_ranks_are_counted_in_both_directions(seed: int) -> None:
    generator = np.random.default_rng(seed)
    source, target = (generator.integers(-2, 3, (300, 3)).astype(np.float32) for _ in range(2))
    sources, targets = ([f"{row % 70}" for row in range(300)], [f"{row // 2}" for row in range(300)])
    ranks = partner_ranks(source, target, sources=sources, targets=targets)
    assert ranks.to_target.tolist() == counted(source, target, targets)
    assert ranks.to_source.tolist() == counted(target, source, sources)


def test_equal_vectors_find_nothing_by_luck() -> None:
    same = np.ones((10, 4), dtype=np.float32)
    texts = [str(row) for row in range(10)]
    scores = partner_ranks(same, same, sources=texts, targets=texts).scores
    assert scores.to_target == scores.to_source == scores.mean
    assert scores.mean.top1 == 10.0 and scores.mean.top5 == 50.0
    assert scores.mean.mrr == pytest.approx(100 * sum(1 / rank for rank in range(1, 11)) / 10)


def test_scores_of_ranks() -> None:
    assert score_ranks(np.array([1, 2, 6, 1])) == (50.0, 75.0, pytest.approx(100 * (1 + 0.5 + 1 / 6 + 1) / 4))
    assert score_ranks(np.array([])) == (0.0, 0.0, 0.0)


def test_ranking_can_be_stopped() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        partner_ranks(np.ones((2, 2)), np.ones((2, 2)), sources=["a", "b"], targets=["a", "b"], poll=stop)
