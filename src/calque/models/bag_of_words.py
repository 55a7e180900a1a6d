"""An encoder without word order: a baseline that shows what word order contributes.

Letters: B sentences, S source, E embedding, D width.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import nn

from calque.config import Config
from calque.layers.bounds import Width
from calque.models.interfaces import Encoder, Memory, MemoryShape
from calque.models.recurrent import WordEmbedding
from calque.tensors import Padded


class BagOfWordsEncoderConfig(Config):
    """The mean of the word vectors through one layer."""

    kind: Literal["mean"] = "mean"
    width: Width = 256
    """Width of the memory."""
    embedding: Width = 256
    """Width of the word vectors."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """On the embeddings."""


class BagOfWordsEncoder(Encoder):
    """valuesₛ = tanh(W eₛ + b), final = tanh(W ē + b), ē the mean of the sentence's eₛ; not from a paper."""

    def __init__(self, config: BagOfWordsEncoderConfig, *, vocabulary_size: int) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary_size, width=config.embedding, dropout=config.dropout)
        self.dense = nn.Linear(config.embedding, config.width)
        self.shape = MemoryShape(width=config.width, layers=1, parts=1, inputs=config.embedding)

    def forward(self, source: Padded) -> Memory:
        mask = source.mask
        inputs = self.embedding(source.values)
        mean = inputs.masked_fill(~mask[..., None], 0).sum(dim=1, keepdim=True) / mask.sum(dim=1)[:, None, None]
        final = torch.tanh(self.dense(mean))
        return Memory(torch.tanh(self.dense(inputs)), mask, inputs, source.values, (final,))
