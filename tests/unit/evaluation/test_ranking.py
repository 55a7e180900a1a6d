"""Ranking metrics against plain sorting, their ties, and intervals that cover."""

import math

import numpy as np
import pytest
import torch

from calque.evaluation.ranking import CUTOFFS, METRICS, MISSED, ranking_intervals, ranking_scores, target_ranks


def sorted_rank(scores: list[float], target: int) -> int:
    """The rank by sorting all items, the target last among equals; 0 if it is excluded."""
    if scores[target] == -math.inf:
        return MISSED
    items = [item for item, score in enumerate(scores) if score != -math.inf]
    return sorted(items, key=lambda item: (-scores[item], item == target)).index(target) + 1


@pytest.mark.parametrize("distinct", [3, 1000])
def test_ranks_are_those_of_sorting(distinct: int) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, distinct, (50, 37), generator=generator).double()
    scores[torch.rand(50, 37, generator=generator) < 0.2] = -torch.inf
    targets = torch.randint(0, 37, (50,), generator=generator)
    expected = [sorted_rank(row, target) for row, target in zip(scores.tolist(), targets.tolist(), strict=True)]
    assert target_ranks(scores, targets).tolist() == expected
    assert MISSED in expected


def test_scores_that_are_not_numbers_are_ahead_of_the_target() -> None:
    nan = math.nan
    assert target_ranks(torch.tensor([[nan, 1.0, 0.0], [nan, nan, 0.0]]), torch.tensor([1, 0])).tolist() == [2, 3]


def test_metrics_are_their_definitions() -> None:
    ranks = [1, 2, 7, 15, 300, MISSED]
    scores = ranking_scores(ranks)
    assert set(scores) == set(METRICS)
    for cutoff in CUTOFFS:
        hits = [rank for rank in ranks if 1 <= rank <= cutoff]
        assert scores[f"hr@{cutoff}"] == pytest.approx(len(hits) / 6)
        assert scores[f"ndcg@{cutoff}"] == pytest.approx(sum(1 / math.log2(rank + 1) for rank in hits) / 6)
    assert scores["mrr"] == pytest.approx(sum(1 / rank for rank in ranks if rank) / 6)


def test_intervals_are_those_of_a_mean() -> None:
    ranks = np.random.default_rng(0).integers(1, 60, 900)
    interval = ranking_intervals(ranks)["hr@20"]
    share = float((ranks <= 20).mean())
    deviation = math.sqrt(share * (1 - share) / 900)
    assert interval.value == pytest.approx(share)
    assert interval.low == pytest.approx(share - 1.96 * deviation, abs=0.3 * deviation)
    assert interval.high == pytest.approx(share + 1.96 * deviation, abs=0.3 * deviation)
    assert ranking_intervals(ranks)["hr@20"] == interval
