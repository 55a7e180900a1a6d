"""Ranking metrics of recommenders: hit rate, NDCG and mean reciprocal rank over the whole catalogue.

Every user has one target. So HR@k is the share of users whose target is among the first k items; NDCG@k is the mean
over all users of 1 / log₂(rank + 1), or of 0 if the target is not among the first k items; MRR is the mean of 1 / rank.

Letters: U users, V items, R resamples, K metrics.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calque.evaluation.intervals import Interval, percentiles

Array = NDArray[Any]

CUTOFFS = (1, 5, 10, 20)
METRICS = (*(f"{name}@{cutoff}" for name in ("hr", "ndcg") for cutoff in CUTOFFS), "mrr")
MISSED = 0
"""The rank of a target that cannot be recommended: it is unknown, or the user has already seen it."""

_TOGETHER = 200  # resamples whose means are computed at once


def target_ranks(scores: Tensor, targets: Tensor) -> Tensor:
    """The rank [U], from 1, of each target [U] among the items of `scores` [U,V]; items with score −inf do not compete.

    Ties are pessimistic: an item with the same score as the target, or with a score of NaN, ranks ahead of the target.
    A target whose own score is −inf has the rank MISSED, which is 0.
    """
    own = scores.gather(1, targets[:, None])  # [U,1]
    competes = scores != -torch.inf
    is_ahead = competes & ~(scores < own)
    ranks = is_ahead.sum(dim=1)  # the target itself is counted, as it is not below itself
    return ranks.masked_fill(own.squeeze(1) == -torch.inf, MISSED)


def user_statistics(ranks: Sequence[int] | Array) -> Array:
    """The contribution [U,K] of every user to each metric of METRICS, given the rank of the user's target."""
    values = np.asarray(ranks, dtype=np.float64)
    is_hit = values != MISSED
    safe = np.where(is_hit, values, 1.0)
    hits = [is_hit & (values <= cutoff) for cutoff in CUTOFFS]
    gains = [np.where(hit, 1 / np.log2(safe + 1), 0.0) for hit in hits]
    return np.stack([*hits, *gains, np.where(is_hit, 1 / safe, 0.0)], axis=1).astype(np.float64)


def ranking_scores(ranks: Sequence[int] | Array) -> dict[str, float]:
    """The value of every metric, between 0 and 1."""
    return dict(zip(METRICS, user_statistics(ranks).mean(axis=0).tolist(), strict=True))


def ranking_intervals(
    ranks: Sequence[int] | Array, *, samples: int = 1000, seed: int = 12345
) -> Mapping[str, Interval]:
    """Every ranking metric with its 95 % confidence interval, from one rank per user and a bootstrap over users."""
    statistics = user_statistics(ranks)
    users, generator = len(statistics), np.random.default_rng(seed)
    means = []
    for start in range(0, samples, _TOGETHER):
        size = min(_TOGETHER, samples - start)
        counts = generator.multinomial(users, np.full(users, 1 / users), size=size)  # [R,U]
        means.append(counts @ statistics / users)
    values, resampled = statistics.mean(axis=0), np.concatenate(means)  # [K], [R,K]
    return {
        name: Interval(float(value), *percentiles(column))
        for name, value, column in zip(METRICS, values, resampled.T, strict=True)
    }
