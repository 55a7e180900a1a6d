"""REINFORCE: samples become more likely if their reward exceeds a baseline (Williams 1992).

Letters: N rows, T steps.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Draws(NamedTuple):
    """How REINFORCE trains hard attention: the weight of its term in the loss, and the discount of later rewards."""

    weight: float  # of the REINFORCE term relative to the loss, λᵣ
    discount: float  # of later rewards, per step


class MovingBaseline(nn.Module):
    """b ← 0.9 b + 0.1 r̄, a moving average of the reward per step (Xu 2015, §4.1); saved with the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(()), requires_grad=False)

    @torch.no_grad()
    def follow(self, rewards: Tensor, counts: Tensor) -> None:
        """Updates the average with a batch's rewards, given their sum and number; ignores means that are not finite."""
        mean = (rewards / counts).to(self.value.dtype)
        self.value.lerp_(mean.where(mean.isfinite(), self.value), 0.1)


def reinforced(chosen: Tensor, *, losses: Tensor, counts: Tensor, baseline: Tensor, draws: Draws) -> Tensor:
    """−λ Σₜ Rₜ log π(aₜ), Rₜ = Σ_{k≥t} γᵏ⁻ᵗ (rₖ − b): a scalar whose gradient is that of REINFORCE (Xu 2015, eq. 12).

    `chosen` [N,T] are the log-probabilities log π(aₜ) of the samples; the reward rₜ is the negative of `losses` [N,T].
    Sample t affects only the losses of its own and later steps. With weight λ = 1 and discount γ = 1, the expected
    gradient is the part of the gradient of the expected loss that is due to sampling; smaller values reduce its
    variance. `counts` [N,T] is false for padding.
    """
    rewards = (-losses.detach() - baseline) * counts
    steps = torch.arange(chosen.shape[1], device=chosen.device)
    offsets = steps[:, None] - steps  # [T,T], k − t
    discounts = torch.where(offsets >= 0, draws.discount ** offsets.clamp(min=0).to(rewards.dtype), 0)
    rewards_to_go = (rewards[:, :, None] * discounts).sum(dim=1)  # not a matrix product, which may run in low precision
    return -draws.weight * (rewards_to_go * chosen * counts).sum()
