"""How draws are learnt: they are made more likely where what followed was better than usual (Williams 1992).

Letters: N rows, T steps.
"""

import torch
from torch import Tensor, nn


class Reinforce(nn.Module):
    """What teaches draws: λ times the REINFORCE term, against a moving baseline (Xu 2015, §4.1).

    b ← 0.9 b + 0.1 r̄, what a step's reward usually is; it is saved with the weights.
    """

    def __init__(self, *, weight: float, discount: float) -> None:
        super().__init__()
        self.weight, self.discount = weight, discount
        self.baseline = nn.Parameter(torch.zeros(()), requires_grad=False)

    def forward(self, chosen: Tensor, *, losses: Tensor, counts: Tensor) -> Tensor:
        """A scalar to add to the loss, from the draws' log-probabilities, 0 where none was drawn; all are [N,T]."""
        taught = reinforced(
            chosen, losses=losses, counts=counts, baseline=self.baseline.clone(), discount=self.discount
        )
        self._follow(-losses.detach(), counts & (chosen.detach() != 0))
        return self.weight * taught

    @torch.no_grad()
    def _follow(self, rewards: Tensor, counts: Tensor) -> None:
        mean = (rewards * counts).sum() / counts.sum().clamp(min=1)
        self.baseline.mul_(0.9).add_(0.1 * mean.to(self.baseline.dtype))


def reinforced(chosen: Tensor, *, losses: Tensor, counts: Tensor, baseline: Tensor, discount: float) -> Tensor:
    """−Σₜ Rₜ log π(aₜ), Rₜ = Σ_{k≥t} γᵏ⁻ᵗ (rₖ − b): its gradient teaches the draws (Xu 2015, eq. 12).

    Draw t has the log-probability `chosen` [N,T]; it can only change the losses [N,T], −r, of its own step and of later
    ones. With a discount γ of 1 the gradient is, in expectation, the draws' share of the expected loss's; with less,
    what a draw does to later steps counts less, and so does their noise.
    """
    rewards = (-losses.detach() - baseline) * counts
    steps = torch.arange(chosen.shape[1], device=chosen.device)
    ahead = steps[:, None] - steps  # [T,T], how far k lies behind t
    reach = torch.where(ahead >= 0, discount ** ahead.clamp(min=0).to(rewards.dtype), 0)
    to_go = (rewards[:, :, None] * reach).sum(dim=1)  # no product of matrices: those may be of few bits
    return -(to_go * chosen * counts).sum()
