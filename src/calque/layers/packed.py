"""Matrix products for decoding on a CPU, with a copy of the weight in the memory layout that a kernel reads.

With few rows, the C kernel of `calque.native` is up to three times as fast as PyTorch's product. If it is not compiled,
oneDNN's kernel is used instead, which is worthwhile from 192 rows on. oneDNN caches about 0.5 MB for every combination
of a layer's shape and a number of rows, so the number of rows is rounded up to one of few sizes.
"""

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.fused_linear import FusedLinear, finished
from calque.layers.kept_weight import Origin
from calque.layers.observers import AttentionLayer
from calque.layers.output import FullOutput
from calque.layers.recurrent import Gates, Recurrence
from calque.native.operations import FloatProduct, is_available, is_usable
from calque.tensors import weightless

ROWS = 512  # the number of rows that the layout is chosen for; it works for any number
SMALLEST = 1 << 14  # weights; smaller layers are not packed for oneDNN
FEW, WIDE = 192, 4096  # below FEW rows, packing pays only for layers with at least WIDE outputs


class PackedLinear(nn.Linear, FusedLinear):
    """A linear layer that multiplies with a packed copy of its weight, unless gradients are needed."""

    _packed: Tensor | None = None  # for oneDNN
    _product: FloatProduct | None = None
    _origins: tuple[Origin, ...] = ()

    @classmethod
    def sharing(cls, weight: nn.Parameter, bias: nn.Parameter | None) -> Self:
        """A packed layer that shares the parameters `weight` and `bias` with another layer instead of copying them."""
        with weightless():
            layer = cls(weight.shape[1], weight.shape[0], bias=bias is not None)
        layer.weight = weight
        layer.bias = bias  # type: ignore[assignment]
        return layer

    def columns(self, start: int, stop: int) -> Self:
        """The layer restricted to inputs `start` to `stop`; only the part that begins at input 0 has the bias."""
        return self.sharing(_view(self.weight[:, start:stop]), None if start else self.bias)

    def rows(self, start: int, stop: int) -> Self:
        """The layer restricted to outputs `start` to `stop`."""
        bias = None if self.bias is None else _view(self.bias[start:stop])
        return self.sharing(_view(self.weight[start:stop]), bias)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.fused(inputs)

    def fused(self, inputs: Tensor, *, relu: bool = False, added: Tensor | None = None) -> Tensor:
        if is_usable(inputs) and self.weight.dtype == torch.float32:
            return self.native()(inputs, relu=relu, added=added)
        return finished(self._by_torch(inputs), relu=relu, added=added)

    def native(self) -> FloatProduct:
        """The object that computes W x + b with the C kernel; it is built again if the weight has changed."""
        self._forget_changed()
        product = self._product
        if product is None:
            self._product = product = FloatProduct(self.weight, self.bias)
        return product

    def _by_torch(self, inputs: Tensor) -> Tensor:
        is_small = inputs.numel() < FEW * self.in_features and self.out_features < WIDE
        if is_small or torch.is_grad_enabled() or inputs.dtype != torch.float32 or self.weight.device.type != "cpu":
            return F.linear(inputs, self.weight, self.bias)
        self._forget_changed()
        if self._packed is None:
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self.weight.detach(), ROWS)
        rows = inputs.reshape(-1, inputs.shape[-1])
        extra = rounded_up(len(rows)) - len(rows)
        padded = F.pad(rows, (0, 0, 0, extra)) if extra else rows
        outputs = torch.ops.mkldnn._linear_pointwise(padded, self._packed, self.bias, "none", [], "")
        return outputs[: len(rows)].view(*inputs.shape[:-1], self.out_features)  # type: ignore[no-any-return]

    def _forget_changed(self) -> None:
        """Discards the packed weight if the weight or the bias has changed since it was packed."""
        parameters = (self.weight,) if self.bias is None else (self.weight, self.bias)
        if len(self._origins) != len(parameters) or not all(map(Origin.is_of, self._origins, parameters)):
            self._origins, self._packed, self._product = tuple(map(Origin.now, parameters)), None, None

    def __getstate__(self) -> dict[str, Any]:
        """The layer without the packed weight, which can be neither copied nor pickled."""
        return {**self.__dict__, "_packed": None, "_product": None, "_origins": ()}


def _view(values: Tensor) -> nn.Parameter:
    """A parameter without gradients that shares the memory and the version counter of `values`."""
    return nn.Parameter(values.detach(), requires_grad=False)


def rounded_up(rows: int) -> int:
    """The number of rows, rounded up to one of few sizes, since oneDNN keeps a kernel for every size it meets."""
    if rows <= 16:
        return 1 << max(0, rows - 1).bit_length()
    step = 16 if rows <= 256 else 64 if rows <= 1024 else 1 << (rows - 1).bit_length() - 3  # 4 steps per power of 2
    return rows + -rows % step


def pack(model: nn.Module) -> None:
    """Makes the layers of a model compute with kernels for decoding on a CPU; results change only by rounding.

    Linear and full output layers multiply with a packed copy of their weight. If the kernels in C are compiled, they
    also compute recurrent layers and attention. If neither they nor oneDNN's kernels exist, no layer changes.
    """
    if not is_available() and not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return
    for module in list(model.modules()):
        if isinstance(module, FullOutput):
            module.product = PackedLinear.sharing(module.weight, module.bias)
        for name, layer in module.named_children():
            if type(layer) is nn.Linear and (is_available() or layer.weight.numel() >= SMALLEST):
                assert isinstance(layer.weight, nn.Parameter)
                setattr(module, name, PackedLinear.sharing(layer.weight, layer.bias))
        if isinstance(module, Recurrence) and module.has_native:
            module.products = Gates(module.kernel, linear=PackedLinear.sharing)
        elif isinstance(module, AttentionLayer):
            module.use_native()
