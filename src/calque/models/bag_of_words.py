"""An encoder without word order: a baseline that shows what word order contributes.

Letters: B sentences, S source, E embedding, D width.
"""

from typing import Any, Literal

import torch
from pydantic import Field
from torch import nn

from calque.config import Config
from calque.layers.bounds import Width
from calque.models.interfaces import Encoder, Inputs, Memory, MemoryShape
from calque.models.recurrent import word_embedding


class BagOfWordsEncoderConfig(Config):
    """A feed-forward layer applied to each word vector and to their mean."""

    kind: Literal["mean"] = "mean"
    width: Width = 256
    """Width of the memory."""
    embedding: Width = 256
    """Width of the word vectors."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """Dropout on the embeddings."""


class BagOfWordsEncoder(Encoder):
    """Encodes each word separately, and the sentence by the mean of its word vectors. It is not from a paper.

    valuesₛ = tanh(W eₛ + b) for the word vectors eₛ; final = tanh(W ē + b) for their mean ē.
    """

    def __init__(
        self, config: BagOfWordsEncoderConfig, *, vocabulary_size: int = 0, inputs: Inputs | None = None
    ) -> None:
        super().__init__()
        self.inputs = inputs
        width = config.embedding if inputs is None else inputs.width
        self.embedding = word_embedding(vocabulary_size, width=config.embedding, dropout=config.dropout, inputs=inputs)
        self.dense = nn.Linear(width, config.width)
        self.shape = MemoryShape(width=config.width, layers=1, parts=1, inputs=width)

    def forward(self, source: Any) -> Memory:
        read = self.read(source)
        mask, inputs = read.mask, self.embedding(read.values)
        mean = inputs.masked_fill(~mask[..., None], 0).sum(dim=1, keepdim=True) / mask.sum(dim=1)[:, None, None]
        final = torch.tanh(self.dense(mean))
        return Memory(torch.tanh(self.dense(inputs)), mask, inputs, read.tokens, (final,))
