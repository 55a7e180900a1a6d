"""Losses with sampled negatives: in training, a target is compared with a few random items, not the whole catalogue.

Letters: B rows, T positions, S items that are never negatives, D width, V vocabulary, n negatives.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config
from calque.layers.bounds import Samples
from calque.layers.output import FullOutput, wide
from calque.layers.sampled import draw


class NegativesOutputConfig(Config):
    """Scores of all items, trained on a few sampled negatives per target."""

    kind: Literal["negatives"] = "negatives"
    loss: Literal["binary", "pairwise"] = "binary"
    """binary: binary cross-entropy, with label 1 for the target and 0 for each negative (Kang and McAuley 2018, eq. 6).
    pairwise: the target should score higher than a negative (BPR: Rendle et al. 2009; Hidasi et al. 2016, §3.1.3)."""
    negatives: Samples = 1
    """Negatives per target."""
    sampling: Literal["uniform", "frequency"] = "uniform"
    """uniform: all items are equally likely. frequency: in proportion to their frequency in training, as if the
    negatives were the targets of other users in the batch (Hidasi et al. 2016, §3.1.2)."""


class NegativesOutput(FullOutput):
    """Scores l = W h + b of all items. In training, a target y has negatives w₁…wₙ, sampled with replacement:

        binary     −log σ(l_y) − Σ_s log σ(−l_{w_s})
        pairwise   −1/n Σ_s log σ(l_y − l_{w_s})

    Items of the target's own row (the history of one user) never count as negatives: their terms are 0. In evaluation,
    the loss is that of the full softmax.
    """

    def __init__(self, config: NegativesOutputConfig, *, vocabulary_size: int, width: int, first: int) -> None:
        super().__init__(vocabulary_size, width=width)
        self.config = config
        self.first = first  # the smallest id of an item
        shares = torch.cat([torch.zeros(first), torch.full((vocabulary_size - first,), 1 / (vocabulary_size - first))])
        self.proposal = nn.Parameter(shares, requires_grad=False)

    @torch.no_grad()
    def learn_frequencies(self, counts: Tensor) -> None:
        """Sets the sampling distribution: uniform, or relative frequencies with add-one smoothing of `counts` [V]."""
        if self.config.sampling == "frequency":
            smoothed = counts.double() + 1
            smoothed[: self.first] = 0
            self.proposal.copy_((smoothed / smoothed.sum()).to(self.proposal.dtype))

    def sampled_losses(self, hidden: Tensor, targets: Tensor, *, avoided: Tensor) -> Tensor:
        """The losses [B,T] of targets [B,T], given hidden [B,T,D]; items in `avoided` [B,S] are never negatives."""
        count = self.config.negatives
        negatives = draw(self.proposal, count=targets.numel() * count).view(*targets.shape, count)  # [B,T,n]
        is_used = ~(negatives[..., None] == avoided[:, None, None]).any(dim=-1)
        positive = self._logits(hidden, targets[..., None])  # [B,T,1]
        negative = self._logits(hidden, negatives)
        if self.config.loss == "pairwise":
            return -(F.logsigmoid(positive - negative) * is_used).mean(dim=-1)
        return -F.logsigmoid(positive).squeeze(-1) - (F.logsigmoid(-negative) * is_used).sum(dim=-1)

    def _logits(self, hidden: Tensor, items: Tensor) -> Tensor:
        """The scores [B,T,n] of n `items` at each position, given the hidden vectors [B,T,D]."""
        vectors = F.embedding(items, self.weight)
        biases = self.bias.index_select(0, items.flatten()).view_as(items)
        return wide((vectors @ hidden[..., None]).squeeze(-1) + biases)
