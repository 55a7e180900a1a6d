"""Pooling: one vector per sentence, computed from the vectors of its positions.

Letters: B sentences, S positions, D width.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from calque.tensors import at_last

PoolingName = Literal["last", "mean", "attention"]
POOLINGS: tuple[PoolingName, ...] = ("last", "mean", "attention")


class AttentionPooling(nn.Module):
    """v = Σ aₛ hₛ with a = softmax(w·tanh(W h + b)): one hop of self-attention (Lin et al. 2017, §2.1).

    Law: padding does not affect the vector.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, width)
        self.score = nn.Linear(width, 1, bias=False)

    def weights(self, values: Tensor, mask: Tensor) -> Tensor:
        """The weight of every position [B,S], given vectors [B,S,D]; 0 for padding."""
        scores = self.score(torch.tanh(self.hidden(values))).squeeze(-1)
        return _softmax(scores, mask)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        """[B,D], the weighted sums of vectors [B,S,D]."""
        return _weighted(values, self.weights(values, mask), mask)


def mean_pooling(values: Tensor, mask: Tensor) -> Tensor:
    """[B,D], the mean of each row's vectors [B,S,D], padding excluded."""
    counts = mask.sum(dim=1, keepdim=True).clamp(min=1)
    return values.masked_fill(~mask[..., None], 0).sum(dim=1) / counts


def last_pooling(values: Tensor, mask: Tensor) -> Tensor:
    """[B,D], the vector of each row's last position before the padding."""
    return at_last(values, mask.sum(dim=1))


def central_pooling(values: Tensor, mask: Tensor) -> Tensor:
    """[B,D], Σ aₛ hₛ with a = softmax(hₛ·h̄ / √D) for the mean h̄: attention pooling without learnt weights."""
    mean = mean_pooling(values, mask)
    scores = (values @ mean[..., None]).squeeze(-1) / values.shape[-1] ** 0.5
    return _weighted(values, _softmax(scores, mask), mask)


def pool_states(name: PoolingName, values: Tensor, mask: Tensor) -> Tensor:
    """[B,D], vectors [B,S,D] pooled by a method without learnt weights."""
    match name:
        case "last":
            return last_pooling(values, mask)
        case "mean":
            return mean_pooling(values, mask)
        case "attention":
            return central_pooling(values, mask)


def _softmax(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)


def _weighted(values: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    return (weights[..., None] * values.masked_fill(~mask[..., None], 0)).sum(dim=1)
