"""Gated convolutions with weight normalisation, and gradient scaling.

Letters: N rows, T positions, D width, I and O widths in and out, k kernel.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.int8_linear import Int8Linear
from calque.layers.kept_weight import KeptWeight
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
        self.kept = KeptWeight(normalised)
        _initialise(self, std=(retained / inputs) ** 0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        """W x + b [...,O] for inputs x [...,I]."""
        return F.linear(inputs, self.weight(), self.bias)

    def weight(self) -> Tensor:
        """The normalised weight W [O,I]."""
        return self.kept(self.direction, magnitude=self.magnitude)


class GatedConvolution(StateLayer):
    """A ⊗ σ(B) where [A; B] = W [xᵢ; …; xᵢ₊ₖ₋₁] + b with W normalised (Gehring 2017, §3.2; Dauphin 2017, eq. 1).

    Initialised to v ~ N(0, √(4p/n)), n = k·D, b = 0, so that the gate preserves the variance of small inputs (§3.5).
    """

    def __init__(self, width: int, *, kernel: int, retained: float = 1.0) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.empty(2 * width, width, kernel))
        self.magnitude = nn.Parameter(torch.empty(2 * width))
        self.bias = nn.Parameter(torch.zeros(2 * width))
        self.width, self.kernel = width, kernel
        self.kept = KeptWeight(_normalised_rows)
        self.product: Int8Linear | None = None  # computes W x + b in its place, see `int8`
        _initialise(self, std=(4 * retained / (kernel * width)) ** 0.5)

    def forward(self, window: Tensor) -> Tensor:
        """The outputs [N,T,D] for inputs [N,T+k−1,D]; the caller adds any padding.

        In decoding, a product over windows replaces torch's convolution, which takes 3 times as long for one position.
        """
        if self.product is not None:
            return F.glu(self.product(windows(window, kernel=self.kernel)), dim=-1)
        if self.kept.is_used:
            return F.glu(F.linear(windows(window, kernel=self.kernel), self.weight(), self.bias), dim=-1)
        weight = normalised(self.direction, magnitude=self.magnitude)
        return F.glu(F.conv1d(window.transpose(1, 2), weight, self.bias), dim=1).transpose(1, 2)

    def weight(self) -> Tensor:
        """The normalised weight W [2D,k·D], which multiplies `windows`."""
        return self.kept(self.direction, magnitude=self.magnitude)


def keep_normalised(model: nn.Module) -> None:
    """Makes the layers of a model normalise their weights once, not at every call; for models that only decode."""
    for module in model.modules():
        if isinstance(module, NormalisedLinear | GatedConvolution):
            module.kept.enabled = True


def windows(values: Tensor, *, kernel: int) -> Tensor:
    """The windows [N,T,k·D] of k consecutive vectors of `values` [N,T+k−1,D], one for each start position."""
    size = values.shape[1] - kernel + 1
    if size == 1:
        return values.flatten(1)[:, None]
    return torch.cat([values[:, start : start + size] for start in range(kernel)], dim=-1)


def normalised(direction: Tensor, *, magnitude: Tensor) -> Tensor:
    """g · v / |v| for directions v [O,...]: the norm of each output's weights is its magnitude g [O]."""
    scale: Tensor = magnitude / torch.linalg.vector_norm(direction.flatten(1), dim=1)
    return direction * scale.reshape(-1, *[1] * (direction.dim() - 1))


def _normalised_rows(direction: Tensor, *, magnitude: Tensor) -> Tensor:
    """A convolution's normalised weights, from directions [O,D,k], as the matrix [O,k·D] that multiplies `windows`."""
    return normalised(direction, magnitude=magnitude).transpose(1, 2).flatten(1)


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
