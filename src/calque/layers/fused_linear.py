"""Linear layers whose kernel also applies what follows: packed and 8-bit layers for decoding, and a product with ReLU.

Letters: D input width, F output width.
"""

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


def trained_linear_relu(inputs: Tensor, *, weight: Tensor, bias: Tensor) -> Tensor:
    """max(0, W x + b) […,F], given inputs x […,D], for compiled training on a GPU; within autocast, in its data type.

    A compiled graph applies ReLU in a kernel of its own, which reads and writes the widest tensor of a Transformer once
    more, and keeps a mask for the gradient. Here the product's kernel applies it; the gradient needs only the output.
    """
    device = inputs.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else inputs.dtype
    outputs: Tensor = _linear_relu(inputs.flatten(0, -2).to(dtype), weight.to(dtype), bias.to(dtype))
    return outputs.view(*inputs.shape[:-1], len(weight))


@torch.library.custom_op("calque::linear_relu", mutates_args=())
def _linear_relu(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    if not inputs.is_cuda:
        return F.linear(inputs, weight, bias).relu_()
    return torch._addmm_activation(bias, inputs, weight.t())


@_linear_relu.register_fake
def _(inputs: Tensor, weight: Tensor, _bias: Tensor) -> Tensor:
    return inputs.new_empty(len(inputs), len(weight))


def _keep(ctx, inputs, output):  # type: ignore[no-untyped-def]
    ctx.save_for_backward(*inputs[:2], output)


def _differentiate(ctx, slopes):  # type: ignore[no-untyped-def]
    inputs, weight, output = ctx.saved_tensors
    slopes = torch.where(output <= 0, 0, slopes)  # as torch does where the output is NaN
    return slopes @ weight, slopes.t() @ inputs, slopes.sum(dim=0)


_linear_relu.register_autograd(_differentiate, setup_context=_keep)
