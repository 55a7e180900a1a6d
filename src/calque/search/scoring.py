"""How hypotheses of different length and coverage are compared.

Letters: B sentences, K hypotheses, S source.
"""

from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

FLOOR = 1e-6  # of a position's coverage: local and hard attention leave some untouched


class Known(NamedTuple):
    """What a score knows of a sentence beside its hypotheses' probabilities."""

    source_lengths: Tensor  # [B], the end mark counted
    maximum: Tensor  # [B], of tokens, the end mark counted


class Score(Protocol):
    """Ranks finished hypotheses, and bounds what a live one can still reach."""

    @property
    def needs_coverage(self) -> bool:
        """Whether it looks at where attention was."""
        ...

    def finished(self, log_probs: Tensor, *, length: int, covered: Tensor | None, known: Known) -> Tensor:
        """[B,K] scores of hypotheses that end with token number `length`, the end mark counted.

        From log_probs [B,K] and, where it is needed, covered [B,K,S]: the sum of attention over all their steps.
        """
        ...

    def bound(self, log_probs: Tensor, *, length: int, known: Known) -> Tensor:
        """[B], what no continuation of live hypotheses of `length` tokens exceeds, their best log_probs being [B]."""
        ...


class Scoring(NamedTuple):
    """s(Y, X) = log P(Y|X) / lp(Y) + cp(X, Y) + ep(X, Y) + ρ |Y| (Wu 2016, eq. 14, with an end term and a reward).

    lp(Y) = ((5 + |Y|) / 6)^α, or |Y|^α where normalisation is plain; cp = β Σᵢ log min(Σⱼ pᵢⱼ, 1) over the source's
    positions; ep = γ |X| / |Y|. All parameters are at least 0; all at 0 is the plain log-probability.
    """

    alpha: float = 0.0
    beta: float = 0.0
    gamma: float = 0.0
    reward: float = 0.0  # ρ, for each token
    normalisation: Literal["gnmt", "plain"] = "gnmt"

    @property
    def needs_coverage(self) -> bool:
        return self.beta > 0

    def finished(self, log_probs: Tensor, *, length: int, covered: Tensor | None, known: Known) -> Tensor:
        sizes = torch.full_like(known.maximum, length)
        scores = log_probs / self._penalty(sizes, like=log_probs)[:, None] + self.reward * length
        if self.gamma:
            scores = scores + (self.gamma * known.source_lengths.to(log_probs.dtype) / length)[:, None]
        if self.beta:
            if covered is None:
                raise ValueError("coverage needs a model with attention; set search.coverage = 0")
            scores = scores + self.beta * _coverage(covered, known.source_lengths)
        return scores

    def bound(self, log_probs: Tensor, *, length: int, known: Known) -> Tensor:
        # Each term at its best: log P only falls and lp only grows, coverage is at most 0, |X| / |Y| falls.
        ahead = self.reward * known.maximum.to(log_probs.dtype)
        end = self.gamma * known.source_lengths.to(log_probs.dtype) / (length + 1)
        return log_probs / self._penalty(known.maximum, like=log_probs) + end + ahead

    def _penalty(self, lengths: Tensor, *, like: Tensor) -> Tensor:
        """lp of [B] lengths."""
        sizes = lengths.to(like.dtype)
        penalty: Tensor = ((5 + sizes) / 6 if self.normalisation == "gnmt" else sizes) ** self.alpha
        return penalty


def _coverage(covered: Tensor, source_lengths: Tensor) -> Tensor:
    """[B,K], Σᵢ log min(max(coveredᵢ, floor), 1) over each source's own positions."""
    there = torch.arange(covered.shape[-1], device=covered.device) < source_lengths[:, None]
    logs = covered.clamp(FLOOR, 1.0).log()
    return logs.masked_fill(~there[:, None], 0).sum(dim=-1)
