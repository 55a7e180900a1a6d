"""How recurrent layers stand on each other. Letters: N rows, T positions, D width, L layers."""

from typing import Literal, assert_never

import torch
from torch import Tensor, nn

ConnectionName = Literal["none", "residual", "dense", "highway"]


class Connection(nn.Module):
    """What the layer above reads, from what a layer read and what it gave.

    none: h; residual: h + x (He 2016; Wu 2016, §3.1); highway: g ∘ h + (1 − g) ∘ x with g = σ(W x + b) (Srivastava
    2015, eq. 3); dense: [x; h], so that each layer reads all below it (Huang 2017, §3). Residual and highway begin at
    the second layer, where the widths agree; the top of a dense stack gives h alone.
    """

    def __init__(self, name: ConnectionName, *, layer: int, layers: int, width: int) -> None:
        super().__init__()
        applies = layer < layers - 1 if name == "dense" else layer > 0
        self.name: ConnectionName = name if applies else "none"
        self.gate = nn.Linear(width, width) if self.name == "highway" else None
        if self.gate is not None:
            nn.init.constant_(self.gate.bias, -1.0)  # carries at first (Srivastava 2015, §2.2)

    def forward(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """[...,D] or [...,E + D] from inputs [...,E] and outputs [...,D]."""
        match self.name:
            case "none":
                return outputs
            case "residual":
                return inputs + outputs
            case "dense":
                return torch.cat([inputs, outputs], dim=-1)
            case "highway":
                assert self.gate is not None
                gate = self.gate(inputs).sigmoid()
                return gate * outputs + (1 - gate) * inputs  # type: ignore[no-any-return]
            case _:
                assert_never(self.name)


def input_width(name: ConnectionName, *, layer: int, first: int, width: int) -> int:
    """How wide the input of a layer is, in a stack whose first one reads `first`."""
    if layer == 0:
        return first
    return first + layer * width if name == "dense" else width
