"""The output layer's matrix product for decoding on a CPU, with a copy of the weight in the layout of oneDNN's kernels.

With 60 to 1,250 rows, a width of 256 and 8,000 words, these kernels reach 76 to 103 GFLOP/s, and the plain product 56
to 86 (one Zen 4 core). Narrower products gain less. oneDNN keeps a kernel for every number of rows that it meets, so
that number is rounded up.
"""

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.output import FullOutput
from calque.tensors import weightless

ROWS = 512  # the number of rows that the layout is chosen for; it works for any number
STEP = 64  # the number of rows is a multiple of this or, below it, a power of 2


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
        if torch.is_grad_enabled() or inputs.dtype != torch.float32 or self.weight.device.type != "cpu":
            return F.linear(inputs, self.weight, self.bias)
        if self._is_stale():
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self.weight.detach(), ROWS)
        assert self._packed is not None
        rows = inputs.reshape(-1, inputs.shape[-1])
        padded = F.pad(rows, (0, 0, 0, rounded_up(len(rows)) - len(rows)))
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
    return 1 << max(0, rows - 1).bit_length() if rows < STEP else rows + -rows % STEP


def pack(model: nn.Module) -> None:
    """Makes the full output layers of a model use a packed copy of their weight; nothing else changes.

    It does nothing if torch has no such kernels.
    """
    if not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return
    for module in model.modules():
        if isinstance(module, FullOutput):
            module.product = PackedLinear.sharing(module.weight, module.bias)
