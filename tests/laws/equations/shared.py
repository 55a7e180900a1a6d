"""Functions common to all families: products, softmax and means of plain lists of vectors."""

from typing import NamedTuple

import torch
from torch import Tensor, nn


class DecoderOutput(NamedTuple):
    """What a decoder computes for one sentence."""

    hidden: Tensor  # [T,D]
    attention: Tensor | None  # [T,S]
    gate: Tensor | None = None  # [T], the logit of the weight of the vocabulary, of copying decoders


def dense(layer, x: Tensor) -> Tensor:
    return layer.weight @ x + layer.bias


def softmax(scores: list[Tensor]) -> Tensor:
    powers = [torch.exp(score - max(scores)) for score in scores]
    return torch.stack([power / sum(powers) for power in powers])


def mean(weights: Tensor, values: list[Tensor]) -> Tensor:
    return sum(weight * value for weight, value in zip(weights, values, strict=True))


def maxout(layer, x: Tensor) -> Tensor:
    """The larger of each pair of outputs."""
    t = dense(layer.dense, x)
    return torch.stack([torch.maximum(t[2 * j], t[2 * j + 1]) for j in range(len(t) // 2)])


def normed(norm, x: Tensor) -> Tensor:
    """Layer normalisation (Ba 2016) or RMS normalisation (Zhang and Sennrich 2019)."""
    if isinstance(norm, nn.RMSNorm):
        return norm.weight * x / torch.sqrt((x * x).sum() / len(x) + 1e-6)
    centred = x - x.sum() / len(x)
    return norm.weight * centred / torch.sqrt((centred * centred).sum() / len(x) + 1e-5) + norm.bias
