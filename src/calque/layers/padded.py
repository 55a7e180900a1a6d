"""The output layer's matrix product for decoding on a GPU, with a padded copy of the weight (see `padded_output`)."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.fused_linear import finished
from calque.layers.output import FullOutput
from calque.layers.packed import PackedLinear
from calque.layers.padded_output import MULTIPLE


class PaddedLinear(PackedLinear):
    """A linear layer that multiplies with a padded copy of its weight, unless gradients are needed."""

    _padded_bias: Tensor | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        if torch.is_grad_enabled() or self.out_features % MULTIPLE == 0:
            return F.linear(inputs, self.weight, self.bias)
        self._forget_changed()
        if self._packed is None:
            extra = -self.out_features % MULTIPLE
            self._packed = F.pad(self.weight.detach(), (0, 0, 0, extra))
            self._padded_bias = None if self.bias is None else F.pad(self.bias.detach(), (0, extra))
        return F.linear(inputs, self._packed, self._padded_bias)[..., : self.out_features]

    def fused(self, inputs: Tensor, *, relu: bool = False, added: Tensor | None = None) -> Tensor:
        return finished(self(inputs), relu=relu, added=added)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_padded_bias": None}


def pad(model: nn.Module) -> None:
    """Makes the full output layers of a model use a padded copy of their weight; nothing else changes."""
    for module in model.modules():
        if isinstance(module, FullOutput):
            module.product = PaddedLinear.sharing(module.weight, module.bias)
