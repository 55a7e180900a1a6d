"""Products of 8-bit integers for decoding on a CPU.

Each row is quantised by itself, and sums of integers are exact, so the result for a row does not depend on the other
rows of the batch.

Letters: M rows, I and O widths in and out.
"""

from typing import Any

import torch
from torch import Tensor, nn

from calque.layers.output import FullOutput
from calque.layers.packed import rounded_up
from calque.tensors import weightless

SMALLEST = 64  # narrower products are not worth it
WEIGHT_LEVELS = 127  # on either side of 0


def input_levels() -> int:
    """The number of levels of inputs on either side of 0: 127, or 63 on processors without VNNI.

    The kernel reads unsigned levels, in which n + 1 stands for 0 if there are n on either side. Without VNNI, pairs of
    products are added in 16 bits: 2 · 127 · 127 fits, but 2 · 255 · 127 does not.
    """
    return 127 if torch.cpu._is_vnni_supported() else 63


class Int8Linear(nn.Module):
    """y = W x + b with W and x in 8 bits.

    yₒ ≈ s uₒ Σᵢ qₒᵢ pᵢ + bₒ, where x ≈ s p with s = max |x| / levels for each row, and Wₒ ≈ uₒ qₒ with
    uₒ = max |Wₒ| / 127 for each output.
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
        self._packed: Tensor | None = None  # the weight in the layout of the processor's kernel

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None) -> "Int8Linear":
        """The layer that multiplies by this weight [O,I], rounded to 8 bits."""
        with weightless():
            layer = cls(weight.shape[1], weight.shape[0])
        precise = weight.detach().float()
        scales = precise.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny) / WEIGHT_LEVELS
        levels = (precise / scales[:, None]).round().to(torch.int8)
        bias = precise.new_zeros(len(precise)) if bias is None else bias.detach().float().clone()
        for name, value in (("weight", levels), ("scales", scales), ("bias", bias)):
            setattr(layer, name, nn.Parameter(value, requires_grad=False))
        return layer

    def forward(self, inputs: Tensor) -> Tensor:
        """The outputs [...,O] for inputs [...,I], in float32."""
        rows = inputs.reshape(-1, self.inputs)
        levels, scales = quantise_rows(rows)
        products = self._product(levels)[: len(rows)]
        outputs = torch.addcmul(self.bias, products, scales, out=products)
        return outputs.view(*inputs.shape[:-1], self.outputs)

    def _product(self, levels: Tensor) -> Tensor:
        """[M,O], u Σ q p for unsigned levels [M,I] of inputs."""
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
        return {**self.__dict__, "_packed": None}

    def extra_repr(self) -> str:
        return f"inputs={self.inputs}, outputs={self.outputs}"


def quantise_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Unsigned levels [M',I] and scales [M,1] of rows [M,I]: rows ≈ scales · (levels − n − 1), n = `input_levels()`.

    M' is `rounded_up(M)`; the levels of the rows beyond M are arbitrary.
    """
    most = torch.maximum(rows.amax(dim=1, keepdim=True), -rows.amin(dim=1, keepdim=True))
    scales = most.clamp_(min=torch.finfo(torch.float32).tiny) / input_levels()
    count = len(rows)
    levels = torch.empty(rounded_up(count), rows.shape[1], dtype=torch.int8)
    levels[:count].copy_((rows * scales.reciprocal()).round_())  # int8 first: torch converts to uint8 slowly
    return levels.view(torch.uint8).add_(input_levels() + 1), scales


def quantise(model: nn.Module) -> nn.Module:
    """Replaces the large products of a model by 8-bit ones, in place: linear layers and the full output layer."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and min(child.weight.shape) >= SMALLEST:
                setattr(module, name, Int8Linear.of(child.weight, child.bias))
        if isinstance(module, FullOutput) and min(module.weight.shape) >= SMALLEST:
            module.product = Int8Linear.of(module.weight, module.bias)
    return model
