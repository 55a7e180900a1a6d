"""The scores that rank finished hypotheses: log-probability with length, coverage and end terms.

Letters: B sentences, K hypotheses, S source.
"""

from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

FLOOR = 1e-6  # minimum coverage of a position: local and hard attention leave some positions at zero


Length = int | Tensor
"""A number of tokens: an int, or a tensor [1], whose value the host does not know."""


class SentenceLengths(NamedTuple):
    """Source lengths and maximum target lengths, both counting end marks, for length normalisation and its bounds."""

    source_lengths: Tensor  # [B]
    maximum: Tensor  # [B], the maximum number of target tokens


class Score(Protocol):
    """A score function: ranks finished hypotheses, and bounds the score that a live hypothesis can still reach."""

    @property
    def needs_coverage(self) -> bool:
        """Whether the score needs the attention summed over steps."""
        ...

    def finished(self, log_probs: Tensor, *, length: int, covered: Tensor | None, lengths: SentenceLengths) -> Tensor:
        """The scores [B,K] of hypotheses with these log-probabilities [B,K], whose end mark is token number `length`.

        `covered` [B,K,S], the attention summed over all steps, is needed only if `needs_coverage`.
        """
        ...

    def bound(self, log_probs: Tensor, *, length: int, lengths: SentenceLengths) -> Tensor:
        """[B], an upper bound on the score that any live hypothesis of each sentence can still reach.

        `log_probs` [B] are the log-probabilities of the best live hypotheses; all live hypotheses have `length` tokens.
        """
        ...


class ScoreTerms(NamedTuple):
    """The terms of a score, each [B,K]; a term whose setting is 0 is None or 0."""

    length: Tensor  # log P(Y|X) / lp(Y)
    reward: float | Tensor
    end: Tensor | None = None
    coverage: Tensor | None = None

    @property
    def total(self) -> Tensor:
        total = self.length + self.reward
        total = total if self.end is None else total + self.end
        return total if self.coverage is None else total + self.coverage


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

    def finished(
        self, log_probs: Tensor, *, length: Length, covered: Tensor | None, lengths: SentenceLengths
    ) -> Tensor:
        return self.terms(log_probs, length=length, covered=covered, lengths=lengths).total

    def terms(
        self, log_probs: Tensor, *, length: Length, covered: Tensor | None, lengths: SentenceLengths
    ) -> ScoreTerms:
        """The terms of the scores that `finished` returns."""
        target_lengths = (
            length.expand_as(lengths.maximum)
            if isinstance(length, Tensor)
            else torch.full_like(lengths.maximum, length)
        )
        normalised = log_probs / self._penalty(target_lengths, like=log_probs)[:, None]
        end = coverage = None
        if self.gamma:
            end = (self.gamma * lengths.source_lengths.to(log_probs.dtype) / length)[:, None].expand_as(log_probs)
        if self.beta:
            if covered is None:
                raise ValueError(
                    "search.coverage needs a model with attention, but this one has none; set search.coverage = 0"
                )
            coverage = self.beta * _coverage(covered, lengths.source_lengths)
        reward = self.reward * (length.to(log_probs.dtype) if isinstance(length, Tensor) else length)
        return ScoreTerms(normalised, reward, end, coverage)

    def bound(self, log_probs: Tensor, *, length: Length, lengths: SentenceLengths) -> Tensor:
        # Each term at its maximum: log P decreases, lp increases, coverage is at most 0, |X| / |Y| decreases.
        reward = self.reward * lengths.maximum.to(log_probs.dtype)
        end_term = self.gamma * lengths.source_lengths.to(log_probs.dtype) / (length + 1)
        return log_probs / self._penalty(lengths.maximum, like=log_probs) + end_term + reward

    def _penalty(self, lengths: Tensor, *, like: Tensor) -> Tensor:
        """The length penalty, by which log-probabilities are divided, for hypotheses of `lengths` [B] tokens."""
        sizes = lengths.to(like.dtype)
        penalty: Tensor = ((5 + sizes) / 6 if self.normalisation == "gnmt" else sizes) ** self.alpha
        return penalty


def _coverage(covered: Tensor, source_lengths: Tensor) -> Tensor:
    """The coverage term [B,K], Σᵢ log min(max(coveredᵢ, FLOOR), 1) over source positions i that are not padding."""
    is_position = torch.arange(covered.shape[-1], device=covered.device) < source_lengths[:, None]
    logs = covered.clamp(FLOOR, 1.0).log()
    return logs.masked_fill(~is_position[:, None], 0).sum(dim=-1)
