"""The common interface of linear layers that are replaced for decoding: packed ones and those in 8 bits."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class FusedLinear:
    """A linear layer whose kernel may also apply what follows it: ReLU and a residual sum."""

    def fused(self, inputs: Tensor, *, relu: bool = False, added: Tensor | None = None) -> Tensor:
        """W x + b, with max(0, ·) if `relu`; then `added` is added."""
        raise NotImplementedError


def linear_relu(layer: nn.Module, inputs: Tensor) -> Tensor:
    """max(0, W x + b) for any linear layer."""
    if isinstance(layer, FusedLinear):
        return layer.fused(inputs, relu=True)
    return finished(layer(inputs), relu=True, added=None)


def finished(outputs: Tensor, *, relu: bool, added: Tensor | None) -> Tensor:
    """The outputs of a linear layer, with max(0, ·) if `relu`; then `added` is added."""
    outputs = F.relu(outputs, inplace=not torch.is_grad_enabled()) if relu else outputs
    return outputs if added is None else outputs + added
