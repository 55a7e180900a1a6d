"""How hypotheses of different length and coverage are compared.

Letters: B sentences, K hypotheses, S source.
"""

from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

FLOOR = 1e-6  # minimum coverage of a position: local and hard attention leave some positions at zero


class SentenceLengths(NamedTuple):
    """The lengths that a score depends on besides log-probabilities; end marks are counted."""

    source_lengths: Tensor  # [B]
    maximum: Tensor  # [B], the maximum number of target tokens


class Score(Protocol):
    """Ranks finished hypotheses, and bounds the score that a live one can still reach."""

    @property
    def needs_coverage(self) -> bool:
        """Whether it needs the attention summed over steps."""
        ...

    def finished(self, log_probs: Tensor, *, length: int, covered: Tensor | None, lengths: SentenceLengths) -> Tensor:
        """[B,K] scores of hypotheses whose end mark is token number `length`.

        From log_probs [B,K] and, if needed, covered [B,K,S]: attention summed over all steps.
        """
        ...

    def bound(self, log_probs: Tensor, *, length: int, lengths: SentenceLengths) -> Tensor:
        """[B], an upper bound on all continuations of live hypotheses of `length` tokens with best log_probs [B]."""
        ...


class Scoring(NamedTuple):
    """s(Y, X) = log P(Y|X) / lp(Y) + cp(X, Y) + ep(X, Y) + ρ |Y| (Wu 2016, eq. 14, with an end term and a reward).

    lp(Y) = ((5 + |Y|) / 6)^α, or |Y|^α if normalisation is plain; cp = β Σᵢ log min(Σⱼ pᵢⱼ, 1) over the source
    positions; ep = γ |X| / |Y|. |X| and |Y| count end marks. All parameters are non-negative; if all are 0, the score
    is the log-probability.
    """

    alpha: float = 0.0
    beta: float = 0.0
    gamma: float = 0.0
    reward: float = 0.0  # ρ, per token
    normalisation: Literal["gnmt", "plain"] = "gnmt"

    @property
    def needs_coverage(self) -> bool:
        return self.beta > 0

    def finished(self, log_probs: Tensor, *, length: int, covered: Tensor | None, lengths: SentenceLengths) -> Tensor:
        target_lengths = torch.full_like(lengths.maximum, length)
        scores = log_probs / self._penalty(target_lengths, like=log_probs)[:, None] + self.reward * length
        if self.gamma:
            scores = scores + (self.gamma * lengths.source_lengths.to(log_probs.dtype) / length)[:, None]
        if self.beta:
            if covered is None:
                raise ValueError("coverage needs a model with attention; set search.coverage = 0")
            scores = scores + self.beta * _coverage(covered, lengths.source_lengths)
        return scores

    def bound(self, log_probs: Tensor, *, length: int, lengths: SentenceLengths) -> Tensor:
        # Each term at its maximum: log P decreases, lp increases, coverage is at most 0, |X| / |Y| decreases.
        reward = self.reward * lengths.maximum.to(log_probs.dtype)
        end_term = self.gamma * lengths.source_lengths.to(log_probs.dtype) / (length + 1)
        return log_probs / self._penalty(lengths.maximum, like=log_probs) + end_term + reward

    def _penalty(self, lengths: Tensor, *, like: Tensor) -> Tensor:
        """lp for lengths [B]."""
        sizes = lengths.to(like.dtype)
        penalty: Tensor = ((5 + sizes) / 6 if self.normalisation == "gnmt" else sizes) ** self.alpha
        return penalty


def _coverage(covered: Tensor, source_lengths: Tensor) -> Tensor:
    """[B,K], Σᵢ log min(max(coveredᵢ, floor), 1) over the positions of each source, without padding."""
    is_position = torch.arange(covered.shape[-1], device=covered.device) < source_lengths[:, None]
    logs = covered.clamp(FLOOR, 1.0).log()
    return logs.masked_fill(~is_position[:, None], 0).sum(dim=-1)
