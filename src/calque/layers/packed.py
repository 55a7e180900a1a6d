"""Matrix products for decoding on a CPU, with a copy of the weight in the layout of oneDNN's kernels.

On one Zen 4 core with 64 rows, these kernels reach 95 GFLOP/s for an output layer of width 256 and 8,000 words, and the
plain product 63; in the layers of a Transformer of that width, 90 to 105 instead of 71 to 90. The price is memory: a
second copy of the weights and, for every number of rows and every shape of a layer that it meets, a kernel of about
0.5 MB, which oneDNN keeps. So the number of rows is rounded up.
"""

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.output import FullOutput
from calque.tensors import weightless

ROWS = 512  # the number of rows that the layout is chosen for; it works for any number
SMALLEST = 1 << 14  # weights; smaller layers are not packed
FEW, WIDE = 192, 4096  # below FEW rows, packing pays only for layers with at least WIDE outputs


class PackedLinear(nn.Linear):
    """A linear layer that multiplies with a packed copy of its weight, unless gradients are needed."""

    _packed: Tensor | None = None
    _version: int = -1

    @classmethod
    def sharing(cls, weight: nn.Parameter, bias: nn.Parameter | None) -> Self:
        """A packed layer that uses these parameters themselves, not copies."""
        with weightless():
            layer = cls(weight.shape[1], weight.shape[0], bias=bias is not None)
        layer.weight = weight
        layer.bias = bias  # type: ignore[assignment]
        return layer

    def forward(self, inputs: Tensor) -> Tensor:
        is_small = inputs.numel() < FEW * self.in_features and self.out_features < WIDE
        if is_small or torch.is_grad_enabled() or inputs.dtype != torch.float32 or self.weight.device.type != "cpu":
            return F.linear(inputs, self.weight, self.bias)
        if self._is_stale():
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self.weight.detach(), ROWS)
        assert self._packed is not None
        rows = inputs.reshape(-1, inputs.shape[-1])
        extra = rounded_up(len(rows)) - len(rows)
        padded = F.pad(rows, (0, 0, 0, extra)) if extra else rows
        outputs = torch.ops.mkldnn._linear_pointwise(padded, self._packed, self.bias, "none", [], "")
        return outputs[: len(rows)].view(*inputs.shape[:-1], self.out_features)  # type: ignore[no-any-return]

    def _is_stale(self) -> bool:
        """Whether the packed weight must be rebuilt; also records the weight's current version."""
        version = 0 if self.weight.is_inference() else self.weight._version
        is_stale = self._packed is None or self._version != version
        self._version = version
        return is_stale

    def __getstate__(self) -> dict[str, Any]:
        """The layer without the packed weight, which can be neither copied nor pickled."""
        return {**self.__dict__, "_packed": None}


def rounded_up(rows: int) -> int:
    """The number of rows, rounded up to one of few sizes, since oneDNN keeps a kernel for every size it meets."""
    if rows <= 16:
        return 1 << max(0, rows - 1).bit_length()
    step = 16 if rows <= 256 else 64 if rows <= 1024 else 1 << (rows - 1).bit_length() - 3  # 4 steps per power of 2
    return rows + -rows % step


def pack(model: nn.Module) -> None:
    """Makes the linear layers and full output layers of a model use a packed copy of their weight.

    Other layers do not change. If torch has no kernels for packed weights, no layer changes.
    """
    if not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return
    for module in list(model.modules()):
        if isinstance(module, FullOutput):
            module.product = PackedLinear.sharing(module.weight, module.bias)
        for name, layer in module.named_children():
            if type(layer) is nn.Linear and layer.weight.numel() >= SMALLEST:
                assert isinstance(layer.weight, nn.Parameter)
                setattr(module, name, PackedLinear.sharing(layer.weight, layer.bias))
