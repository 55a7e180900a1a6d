"""Maxout: the larger one of each pair of units (Goodfellow 2013). Letters: D width."""

import torch
from torch import Tensor, nn


class Maxout(nn.Module):
    """The larger of each pair of outputs of a linear layer (Goodfellow 2013; Cho 2014, A.1.2; Bahdanau 2015, A.2.2)."""

    def __init__(self, inputs: int, *, units: int) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, 2 * units)

    def forward(self, *parts: Tensor) -> Tensor:
        """The maxout units [...,units] of the concatenated parts, whose widths sum to `inputs`."""
        return self.dense(torch.cat(parts, dim=-1)).unflatten(-1, (-1, 2)).amax(dim=-1)  # type: ignore[no-any-return]
