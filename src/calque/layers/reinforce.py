"""How draws are learnt: they are made more likely where what followed was better than usual (Williams 1992).

Letters: N rows, T steps.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Draws(NamedTuple):
    """How draws are taught."""

    weight: float  # of REINFORCE beside the loss, λᵣ
    discount: float  # of later rewards, a step


class MovingBaseline(nn.Module):
    """b ← 0.9 b + 0.1 r̄, what a step's reward usually is (Xu 2015, §4.1); saved with the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(()), requires_grad=False)

    @torch.no_grad()
    def follow(self, rewards: Tensor, counts: Tensor) -> None:
        """Moves towards the mean of so many rewards, given as their sum; stays where that is no number."""
        mean = (rewards / counts).to(self.value.dtype)
        self.value.lerp_(mean.where(mean.isfinite(), self.value), 0.1)


def reinforced(chosen: Tensor, *, losses: Tensor, counts: Tensor, baseline: Tensor, draws: Draws) -> Tensor:
    """−λ Σₜ Rₜ log π(aₜ), Rₜ = Σ_{k≥t} γᵏ⁻ᵗ (rₖ − b): a scalar whose gradient teaches the draws (Xu 2015, eq. 12).

    Draw t has the log-probability `chosen` [N,T]; it can only change the losses [N,T], −r, of its own step and of later
    ones. With a weight λ and a discount γ of 1 the gradient is, in expectation, the draws' share of the expected
    loss's; with less of either there is less noise.
    """
    rewards = (-losses.detach() - baseline) * counts
    steps = torch.arange(chosen.shape[1], device=chosen.device)
    ahead = steps[:, None] - steps  # [T,T], how far k lies behind t
    reach = torch.where(ahead >= 0, draws.discount ** ahead.clamp(min=0).to(rewards.dtype), 0)
    to_go = (rewards[:, :, None] * reach).sum(dim=1)  # no product of matrices: those may be of few bits
    return -draws.weight * (to_go * chosen * counts).sum()
