"""How draws are learnt: they are made more likely where what followed was better than usual (Williams 1992).

Letters: N rows, T steps.
"""

import torch
from torch import Tensor, nn


class MovingBaseline(nn.Module):
    """b ← 0.9 b + 0.1 r̄, what a step's reward usually is (Xu 2015, §4.1); saved with the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(()), requires_grad=False)

    @torch.no_grad()
    def follow(self, rewards: Tensor, counts: Tensor) -> None:
        """Moves towards the mean of rewards [N,T] where counts [N,T] is true."""
        mean = (rewards * counts).sum() / counts.sum().clamp(min=1)
        self.value.mul_(0.9).add_(0.1 * mean.to(self.value.dtype))


def reinforced(chosen: Tensor, *, losses: Tensor, counts: Tensor, baseline: Tensor) -> Tensor:
    """A scalar whose gradient is the draws' share of the expected loss's gradient (Xu 2015, eq. 12).

    Draw t has the log-probability `chosen` [N,T]; it can only change the losses [N,T] of its own step and of later
    ones, so those are its reward, each against the baseline.
    """
    rewards = (-losses.detach() - baseline) * counts
    to_go = rewards.flip(1).cumsum(dim=1).flip(1)
    return -(to_go * chosen * counts).sum()
