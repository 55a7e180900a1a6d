"""8-bit models for decoding on a CPU: large weights are rounded, and large matrix products use 8-bit integers.

The rounding of floating-point products depends on the number of rows and the amount of padding, and a difference in the
last bit can become a difference of a whole quantisation level. So the remaining products are computed by kernels in
which each sum has a fixed order (`calque.native`) or, without these kernels, in float64 and rounded to float32.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.convolution import GatedConvolution, NormalisedLinear
from calque.layers.int8_linear import Int8Linear, from_levels, to_levels
from calque.layers.observers import AttentionLayer
from calque.layers.output import FullOutput
from calque.layers.recurrent import Gates, Recurrence
from calque.layers.transformer import DecoderBlock

NARROWEST = 64  # a weight with fewer rows or columns stays as it is


def is_rounded(weight: Tensor) -> bool:
    """Whether a parameter is rounded to 8 bits, as all large floating-point matrices are, including embeddings."""
    if not weight.is_floating_point() or weight.dim() < 2:
        return False
    return min(len(weight), weight.numel() // max(1, len(weight))) >= NARROWEST


@torch.no_grad()
def quantise(model: nn.Module) -> nn.Module:
    """Rounds the large weights of a model to 8 bits and replaces its large products by 8-bit ones, in place.

    This covers linear layers, the full output layer, and the products in recurrent layers and gated convolutions. Law:
    if the weights are already rounded, none of them changes.
    """
    model.parameter_count = parameter_count(model)  # type: ignore[assignment]
    for parameter in model.parameters():
        if is_rounded(parameter):
            parameter.copy_(from_levels(to_levels(parameter)))
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, _linear(child.weight, child.bias))
            elif isinstance(child, NormalisedLinear):
                setattr(module, name, _linear(child.weight(), child.bias))
        if isinstance(module, FullOutput) and is_rounded(module.weight):
            module.product = Int8Linear.of(module.weight, module.bias)
        elif isinstance(module, AttentionLayer):
            module.use_native()
            module.in_float64 = True  # wherever torch computes it
        elif isinstance(module, Recurrence) and all(map(is_rounded, module.kernel.all_weights[0][:2])):
            module.products = Gates(module.kernel, linear=Int8Linear.of)
            del module.kernel
        elif isinstance(module, GatedConvolution) and is_rounded(module.direction):
            module.product = Int8Linear.of(module.weight(), module.bias)
            del module.direction, module.magnitude, module.bias
    for module in model.modules():
        if isinstance(module, DecoderBlock) and isinstance(module.self_attention, AttentionLayer):
            module.self_attention.in_float64 = False  # one query over keys without padding: always the same shape
    return model


def parameter_count(model: nn.Module) -> int:
    """The number of a model's parameters; for an 8-bit model, the number before quantisation."""
    before = getattr(model, "parameter_count", None)
    return before if isinstance(before, int) else sum(parameter.numel() for parameter in model.parameters())


class Float64Linear(nn.Module):
    """A linear layer of an 8-bit model that is too narrow for 8 bits: it computes in float64 (see the module)."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.detach().double(), requires_grad=False)
        self.bias = None if bias is None else nn.Parameter(bias.detach().double(), requires_grad=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """The outputs [...,O] for inputs [...,I], in the data type of the inputs."""
        return F.linear(inputs.double(), self.weight, self.bias).to(inputs.dtype)


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Module:
    return Int8Linear.of(weight, bias) if is_rounded(weight) else Float64Linear(weight, bias)
