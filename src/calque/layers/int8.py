"""Models in 8 bits for decoding on a CPU: large weights are rounded, and large products are those of 8-bit integers."""

import torch
from torch import Tensor, nn

from calque.layers.convolution import GatedConvolution, NormalisedLinear
from calque.layers.int8_linear import Int8Linear, from_levels, to_levels
from calque.layers.output import FullOutput
from calque.layers.recurrent import Int8Gates, Recurrence

NARROWEST = 64  # a weight with fewer rows or columns stays as it is
SMALLEST = 1 << 16  # a product with fewer weights, such as 128 × 256, is faster in float32


def is_rounded(weight: Tensor) -> bool:
    """Whether a parameter is rounded to 8 bits: large floating-point matrices, embeddings among them."""
    if not weight.is_floating_point() or weight.dim() < 2:
        return False
    return min(len(weight), weight.numel() // max(1, len(weight))) >= NARROWEST


@torch.no_grad()
def quantise(model: nn.Module) -> nn.Module:
    """Rounds the large weights of a model to 8 bits and replaces its large products by 8-bit ones, in place.

    Replaced are linear layers, the full output layer, and the products in recurrent layers and gated convolutions.
    Law: of a model whose weights are rounded already, no weight changes.
    """
    for parameter in model.parameters():
        if is_rounded(parameter):
            parameter.copy_(from_levels(to_levels(parameter)))
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and _is_multiplied(child.weight):
                setattr(module, name, Int8Linear.of(child.weight, child.bias))
            elif isinstance(child, NormalisedLinear) and _is_multiplied(child.direction):
                setattr(module, name, Int8Linear.of(child.weight(), child.bias))
        if isinstance(module, FullOutput) and _is_multiplied(module.weight):
            module.product = Int8Linear.of(module.weight, module.bias)
        elif isinstance(module, Recurrence) and all(map(_is_multiplied, module.kernel.all_weights[0][:2])):
            module.products = Int8Gates(module.kernel)
            del module.kernel
        elif isinstance(module, GatedConvolution) and _is_multiplied(module.direction):
            module.product = Int8Linear.of(module.weight(), module.bias)
            del module.direction, module.magnitude, module.bias
    return model


def _is_multiplied(weight: Tensor) -> bool:
    """Whether the product with a weight is computed in 8 bits."""
    return is_rounded(weight) and weight.numel() >= SMALLEST
