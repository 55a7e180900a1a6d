"""The common interface of the linear layers that decoding uses in place of nn.Linear: packed and 8-bit layers."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class FusedLinear:
    """A linear layer whose kernel may also apply what follows it: ReLU and a residual sum."""

    def fused(self, inputs: Tensor, *, relu: bool = False, added: Tensor | None = None) -> Tensor:
        """W x + b or, if `relu`, max(0, W x + b); plus `added`, if given."""
        raise NotImplementedError


def linear_relu(layer: nn.Module, inputs: Tensor) -> Tensor:
    """max(0, W x + b) for any linear layer."""
    if isinstance(layer, FusedLinear):
        return layer.fused(inputs, relu=True)
    return finished(layer(inputs), relu=True, added=None)


def finished(outputs: Tensor, *, relu: bool, added: Tensor | None) -> Tensor:
    """The outputs y of a linear layer or, if `relu`, max(0, y); plus `added`, if given."""
    outputs = F.relu(outputs, inplace=not torch.is_grad_enabled()) if relu else outputs
    return outputs if added is None else outputs + added
