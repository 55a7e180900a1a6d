"""How hypotheses of different length are compared."""

from typing import NamedTuple, Protocol

from torch import Tensor


class Score(Protocol):
    """Ranks finished hypotheses, and bounds what a live one can still reach."""

    def finished(self, log_probs: Tensor, *, length: int) -> Tensor:
        """The scores of hypotheses that end with token number `length` (the end mark counts)."""
        ...

    def bound(self, log_probs: Tensor, *, maximum: Tensor) -> Tensor:
        """No continuation of a live hypothesis, up to `maximum` tokens, scores above this."""
        ...


class LengthNormalised(NamedTuple):
    """log P(Y|X) / lp(Y) with lp(Y) = ((5 + |Y|) / 6)^α (Wu 2016, eq. 14); α = 0 is the plain log-probability."""

    alpha: float = 0.0  # at least 0

    def finished(self, log_probs: Tensor, *, length: int) -> Tensor:
        penalty: float = ((5 + length) / 6) ** self.alpha
        return log_probs / penalty

    def bound(self, log_probs: Tensor, *, maximum: Tensor) -> Tensor:
        # log P only falls and lp only grows with the length, so the best conceivable end comes free and latest.
        penalty: Tensor = ((5 + maximum.to(log_probs.dtype)) / 6) ** self.alpha
        return log_probs / penalty
