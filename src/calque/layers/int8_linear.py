"""Matrix products of 8-bit integers for decoding on a CPU.

Each row is quantised separately, and sums of integers are exact, so the result for a row does not depend on the other
rows of the batch.

Letters: M rows, I and O widths in and out.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from calque.layers.fused_linear import FusedLinear, finished
from calque.layers.packed import rounded_up
from calque.native.operations import Int8Product, is_usable
from calque.tensors import weightless

WEIGHT_LEVELS = 127  # on either side of 0
ZERO_BITS = 7  # the last ones of a scale


class Levels(NamedTuple):
    """A weight in 8 bits: weight ≈ scales · values, with one scale for each output."""

    values: Tensor  # [O,...], int8
    scales: Tensor  # [O]


def input_levels() -> int:
    """The number of quantisation levels of inputs on either side of 0: 127, or 63 on processors without VNNI.

    The kernel reads unsigned levels, in which n + 1 stands for 0 if there are n on either side. Without VNNI, pairs of
    products are added in 16 bits: 2 · 127 · 127 fits, but 2 · 255 · 127 does not.
    """
    return 127 if torch.cpu._is_vnni_supported() else 63


def to_levels(weight: Tensor) -> Levels:
    """A weight [O,...] as 8-bit levels q with a scale u per output: uₒ = max |Wₒ| / 127 and qₒ = round(Wₒ / uₒ).

    Scales are rounded up to 17 significant bits. Because |q| has 7 bits, u q then fits into the 24 bits of a float32.
    Laws: `from_levels` is exact, and `to_levels(from_levels(levels))` has the same levels and scales.
    """
    precise = weight.detach().float()
    most = precise.flatten(1).abs().amax(dim=1) / WEIGHT_LEVELS
    bits = most.clamp_(min=torch.finfo(torch.float32).tiny).view(torch.int32)
    unit = 1 << ZERO_BITS
    scales = (bits + (unit - 1)).bitwise_and_(-unit).view(torch.float32)
    return Levels((precise / _per_output(scales, precise)).round_().to(torch.int8), scales)


def from_levels(levels: Levels) -> Tensor:
    """The exact float32 weight [O,...] that levels and scales represent."""
    return levels.values.float() * _per_output(levels.scales, levels.values)


def _per_output(scales: Tensor, weight: Tensor) -> Tensor:
    return scales.view(-1, *[1] * (weight.dim() - 1))


class Int8Linear(nn.Module, FusedLinear):
    """y = W x + b with W and x in 8 bits.

    yₒ ≈ s uₒ Σᵢ qₒᵢ pᵢ + bₒ, where x ≈ s p with s = max |x| / levels for each row, and Wₒ ≈ uₒ qₒ with
    uₒ = max |Wₒ| / 127 for each output (`to_levels`).
    """

    weight: Tensor  # [O,I], q
    scales: Tensor  # [O], u
    bias: Tensor  # [O]

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.inputs, self.outputs = inputs, outputs
        self.weight = nn.Parameter(torch.zeros(outputs, inputs, dtype=torch.int8), requires_grad=False)
        self.scales = nn.Parameter(torch.zeros(outputs), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(outputs), requires_grad=False)
        self._product: Int8Product | None = None  # has the weight in the layout of its kernel
        self._packed: Tensor | None = None  # the weight in the layout of oneDNN's kernel

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None) -> "Int8Linear":
        """The layer that multiplies by this weight [O,I], rounded to 8 bits."""
        levels = to_levels(weight)
        return cls._with(levels, levels.scales.new_zeros(len(weight)) if bias is None else bias.detach().float())

    @classmethod
    def _with(cls, levels: Levels, bias: Tensor) -> "Int8Linear":
        outputs, inputs = levels.values.shape
        with weightless():
            layer = cls(inputs, outputs)
        for name, value in (("weight", levels.values), ("scales", levels.scales), ("bias", bias.clone())):
            setattr(layer, name, nn.Parameter(value.contiguous(), requires_grad=False))
        return layer

    def columns(self, start: int, stop: int) -> "Int8Linear":
        """The layer for inputs `start` to `stop` alone; the bias belongs to the part that begins at input 0.

        The outputs of all parts add up to the output of the whole layer, except for rounding: within each row, every
        part has its own scale.
        """
        bias = torch.zeros_like(self.bias) if start else self.bias
        return self._with(Levels(self.weight[:, start:stop], self.scales), bias)

    def rows(self, start: int, stop: int) -> "Int8Linear":
        """The layer for outputs `start` to `stop` alone."""
        return self._with(Levels(self.weight[start:stop], self.scales[start:stop]), self.bias[start:stop])

    def forward(self, inputs: Tensor) -> Tensor:
        """The outputs [...,O] for inputs [...,I], in the data type of the inputs and the precision of float32."""
        return self.fused(inputs)

    def fused(self, inputs: Tensor, *, relu: bool = False, added: Tensor | None = None) -> Tensor:
        if is_usable(inputs):
            return self.native()(inputs, relu=relu, added=added)
        return finished(self._by_torch(inputs), relu=relu, added=added)

    def native(self) -> Int8Product:
        """The object that computes W x + b with the C kernel; it is built at the first call."""
        product = self._product
        if product is None:
            self._product = product = Int8Product(self.weight, self.scales, self.bias)
        return product

    def _by_torch(self, inputs: Tensor) -> Tensor:
        rows = inputs.reshape(-1, self.inputs)
        levels, scales = quantise_rows(rows)
        products = self._integer_product(levels)[: len(rows)]
        outputs = torch.addcmul(self.bias, products, scales.float(), out=products)
        return outputs.view(*inputs.shape[:-1], self.outputs).to(inputs.dtype)

    def _integer_product(self, levels: Tensor) -> Tensor:
        """The products [M,O] of the weights with 8-bit inputs `levels` [M,I], without the scales of the input rows."""
        if self._packed is None:
            self._zeros = torch.zeros(self.outputs, dtype=torch.long)
            self._packed = torch.ops.onednn.qlinear_prepack(self.weight.data, None)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            levels,
            1.0,  # scale and zero point of the inputs
            input_levels() + 1,
            self._packed,
            self.scales,
            self._zeros,
            None,  # bias
            1.0,  # scale and zero point of the outputs
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        return product

    def __getstate__(self) -> dict[str, Any]:
        """The layer without the packed weight, which can be neither copied nor pickled."""
        return {**self.__dict__, "_packed": None, "_product": None}

    def extra_repr(self) -> str:
        return f"inputs={self.inputs}, outputs={self.outputs}"


def quantise_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Unsigned levels [M',I] and scales [M,1] of rows [M,I]: rows ≈ scales · (levels − n − 1), n = `input_levels()`.

    M' is `rounded_up(M)`; the levels of the rows beyond M are arbitrary.
    """
    most = torch.maximum(rows.amax(dim=1, keepdim=True), -rows.amin(dim=1, keepdim=True))
    scales = (most / input_levels()).clamp_(min=torch.finfo(torch.float32).tiny)
    count = len(rows)
    levels = torch.empty(rounded_up(count), rows.shape[1], dtype=torch.int8)
    levels[:count].copy_((rows * scales.reciprocal()).round_())  # int8 first: torch converts to uint8 slowly
    return levels.view(torch.uint8).add_(input_levels() + 1), scales
