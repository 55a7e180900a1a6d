"""The contrastive loss over a batch of pairs: each sentence must find its partner among all sentences of the batch.

Letters: N pairs, W width of the vectors.
"""

import torch
from torch import Tensor


def contrastive_losses(
    source: Tensor, target: Tensor, *, temperature: float, margin: float = 0.0, excluded: Tensor | None = None
) -> Tensor:
    """[N], the InfoNCE loss of every pair, the mean of both directions; source and target are [N,W].

    With sᵢⱼ = (xᵢ·yⱼ - m δᵢⱼ) / τ, the loss of pair i is ½ (log Σⱼ exp sᵢⱼ + log Σⱼ exp sⱼᵢ) - sᵢᵢ (van den Oord et al.
    2018, eq. 4; the additive margin m of Yang et al. 2019, §2.2). Combinations of two different rows for which
    `excluded` [N,N] is true are left out of the sums.
    """
    with torch.autocast(source.device.type, enabled=False):
        similarities = source @ target.T
        is_own = torch.eye(len(source), dtype=torch.bool, device=source.device)
        scores = torch.where(is_own, similarities - margin, similarities) / temperature
        if excluded is not None:
            scores = scores.masked_fill(excluded & ~is_own, -torch.inf)
        sums = torch.logsumexp(scores, dim=1) + torch.logsumexp(scores, dim=0)
        return 0.5 * sums - scores.diagonal()
