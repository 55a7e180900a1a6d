"""Connections between stacked recurrent layers. Letters: N rows, T positions, D width, L layers."""

from typing import Literal, assert_never

import torch
from torch import Tensor, nn

ConnectionName = Literal["none", "residual", "dense", "highway"]


class Connection(nn.Module):
    """The input of the next layer, from a layer's input x and output h.

    none: h; residual: h + x (He 2016; Wu 2016, §3.1); highway: g ∘ h + (1 − g) ∘ x with g = σ(W x + b) (Srivastava
    2015, eq. 3); dense: [x; h], so that each layer reads all layers below (Huang 2017, §3). Residual and highway
    connections start at the second layer, where the widths agree; the output of a dense stack is h of the top layer.
    """

    def __init__(self, name: ConnectionName, *, layer: int, layers: int, width: int) -> None:
        super().__init__()
        applies = layer < layers - 1 if name == "dense" else layer > 0
        self.name: ConnectionName = name if applies else "none"
        self.gate = nn.Linear(width, width) if self.name == "highway" else None
        if self.gate is not None:
            nn.init.constant_(self.gate.bias, -1.0)  # initially carries its input (Srivastava 2015, §2.2)

    def forward(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """The next layer's input, [...,D] or [...,E + D], given a layer's inputs [...,E] and outputs [...,D]."""
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
    """The input width of a layer in a stack whose first layer reads vectors of width `first`."""
    if layer == 0:
        return first
    return first + layer * width if name == "dense" else width
