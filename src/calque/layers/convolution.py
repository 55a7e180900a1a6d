"""Gated convolutions with weight normalisation, and gradient scaling.

Letters: N rows, T positions, D width, I and O widths in and out, k kernel.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.observers import StateLayer


class NormalisedLinear(nn.Module):
    """W x + b with W = g · v / |v| for each output (Salimans and Kingma 2016, eq. 2).

    Initialised to W = v with v ~ N(0, √(p/I)), b = 0, where p is the probability that dropout retains an input
    (Gehring 2017, §3.5).
    """

    def __init__(self, inputs: int, *, outputs: int, retained: float = 1.0) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.empty(outputs, inputs))
        self.magnitude = nn.Parameter(torch.empty(outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        _initialise(self, std=(retained / inputs) ** 0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        """W x + b [...,O] for inputs x [...,I]."""
        return F.linear(inputs, normalised(self.direction, magnitude=self.magnitude), self.bias)


class GatedConvolution(StateLayer):
    """A ⊗ σ(B) where [A; B] = W [xᵢ; …; xᵢ₊ₖ₋₁] + b, W normalised (Gehring 2017, §3.2; Dauphin 2017, eq. 1).

    Initialised to v ~ N(0, √(4p/n)), n = k·D, b = 0, so that the gate preserves the variance of small inputs (§3.5).
    """

    def __init__(self, width: int, *, kernel: int, retained: float = 1.0) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.empty(2 * width, width, kernel))
        self.magnitude = nn.Parameter(torch.empty(2 * width))
        self.bias = nn.Parameter(torch.zeros(2 * width))
        self.width, self.kernel = width, kernel
        _initialise(self, std=(4 * retained / (kernel * width)) ** 0.5)

    def forward(self, window: Tensor) -> Tensor:
        """The outputs [N,T,D] for inputs [N,T+k−1,D]; the caller adds any padding."""
        weight = normalised(self.direction, magnitude=self.magnitude)
        return F.glu(F.conv1d(window.transpose(1, 2), weight, self.bias), dim=1).transpose(1, 2)


def normalised(direction: Tensor, *, magnitude: Tensor) -> Tensor:
    """g · v / |v| for directions v [O,...]: the norm of each output's weights is its magnitude g [O]."""
    scale: Tensor = magnitude / torch.linalg.vector_norm(direction.flatten(1), dim=1)
    return direction * scale.reshape(-1, *[1] * (direction.dim() - 1))


def scale_gradient(values: Tensor, *, scale: float) -> Tensor:
    """The identity in the forward pass; in the backward pass, the gradient is multiplied by `scale`."""
    scaled: Tensor = _ScaledGradient.apply(values, scale)  # type: ignore[no-untyped-call]
    return scaled


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.scale, None


@torch.no_grad()
def _initialise(layer: NormalisedLinear | GatedConvolution, *, std: float) -> None:
    nn.init.normal_(layer.direction, std=std)
    if not layer.direction.is_meta:  # meta tensors have no norm, and computing it would import torch's compiler
        layer.magnitude.copy_(torch.linalg.vector_norm(layer.direction.flatten(1), dim=1))
