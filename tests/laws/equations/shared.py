"""What the equations of all families share: products, softmax and means of plain lists of vectors."""

from typing import NamedTuple

import torch
from torch import Tensor


class Read(NamedTuple):
    """What a decoder computes for one sentence."""

    hidden: Tensor  # [T,D]
    attention: Tensor | None  # [T,S]
    gate: Tensor | None = None  # [T]


def dense(layer, x: Tensor) -> Tensor:
    return layer.weight @ x + layer.bias


def softmax(scores: list[Tensor]) -> Tensor:
    powers = [torch.exp(score - max(scores)) for score in scores]
    return torch.stack([power / sum(powers) for power in powers])


def mean(weights: Tensor, values: list[Tensor]) -> Tensor:
    return sum(weight * value for weight, value in zip(weights, values, strict=True))
