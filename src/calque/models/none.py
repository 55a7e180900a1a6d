"""No source at all: what makes a language model of any decoder. Letters: B sentences, D width."""

from typing import Literal

import torch
from torch import nn

from calque.config import Config
from calque.layers.bounds import Width
from calque.models.interfaces import Encoder, Memory, MemoryShape
from calque.tensors import Padded


class NoneEncoderConfig(Config):
    """An encoder that does not look at its source."""

    kind: Literal["none"] = "none"
    width: Width = 256
    """Width of the memory, which holds one zero."""


class NoneEncoder(Encoder):
    """A memory of one position that is zero, whatever the source: the decoder models P(y) alone."""

    def __init__(self, config: NoneEncoderConfig) -> None:
        super().__init__()
        self.shape = MemoryShape(width=config.width, layers=1, parts=1, inputs=config.width)
        self.like = nn.Parameter(torch.zeros(()), requires_grad=False)

    def forward(self, source: Padded) -> Memory:
        rows = source.values.shape[0]
        values = self.like.new_zeros(rows, 1, self.shape.width)
        mask = torch.ones(rows, 1, dtype=torch.bool, device=values.device)
        return Memory(values, mask, values, torch.zeros_like(mask, dtype=torch.long), (values,))
