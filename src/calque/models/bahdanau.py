"""Additive attention with the previous state (Bahdanau et al. 2015, "NMT by Jointly Learning to Align and Translate").

Letters: B sentences, K beams, N = B·K hypotheses, S source, T target, E embedding, D width, M memory width.
"""

from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config
from calque.layers.attention import AdditiveScore, attend, fold, unfold
from calque.layers.recurrent import CellName, Recurrence
from calque.models.bridge import Bridge, BridgeName
from calque.models.recurrent import WordEmbedding
from calque.models.seam import Decoder, Memory, MemoryShape, Output


class BahdanauConfig(Config):
    """One recurrent layer that attends before each step, with a deep output of maxout units."""

    kind: Literal["bahdanau"] = "bahdanau"
    cell: CellName = "gru-original"
    """rnn, lstm, gru or gru-original (the paper's)."""
    width: int = Field(default=256, ge=1)
    """Width of the recurrent layer."""
    embedding: int = Field(default=256, ge=1)
    """Width of the word vectors."""
    alignment: int = Field(default=256, ge=1)
    """Width of the alignment model's hidden layer."""
    readout: int = Field(default=256, ge=1)
    """How many maxout units the deep output has."""
    bridge: BridgeName = "backward"
    """The paper's first state is tanh(W ←h₁), from the backward direction; also copy, tanh, zero."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """On the embeddings and on the readout."""


class BahdanauContext(NamedTuple):
    first: tuple[Tensor, ...]  # (s,) or (s, c), each [B,1,D]
    keys: Tensor  # [B,S,A], U h
    values: Tensor  # [B,S,M]
    mask: Tensor  # [B,S]


BahdanauState = tuple[Tensor, ...]  # (s,) or (s, c), each [N,1,D]


class BahdanauDecoder(Decoder[BahdanauState, BahdanauContext]):
    """sᵢ = f(sᵢ₋₁, yᵢ₋₁, cᵢ), cᵢ the attention of sᵢ₋₁; readout maxout(U sᵢ₋₁ + V E yᵢ₋₁ + C cᵢ) (A.2.2)."""

    def __init__(self, config: BahdanauConfig, *, vocabulary_size: int, memory: MemoryShape) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary_size, width=config.embedding, dropout=config.dropout)
        self.bridge = Bridge(config.bridge, cell=config.cell, memory=memory, layers=1, width=config.width)
        self.recurrence = Recurrence(config.cell, input_width=config.embedding + memory.width, width=config.width)
        self.score = AdditiveScore(config.width, memory_width=memory.width, width=config.alignment)
        self.readout = nn.Linear(config.width + config.embedding + memory.width, 2 * config.readout)
        self.dropout = config.dropout
        self.width = config.readout

    def prepare(self, memory: Memory) -> BahdanauContext:
        return BahdanauContext(self.bridge(memory), self.score.keys(memory.values), memory.values, memory.mask)

    def start(self, context: BahdanauContext) -> BahdanauState:
        return context.first

    def forward(
        self, tokens: Tensor, state: BahdanauState, context: BahdanauContext, *, attention: bool = False
    ) -> tuple[Output, BahdanauState]:
        rows, sentences = tokens.shape[0], context.mask.shape[0]
        embedded = self.embedding(tokens)
        cell = tuple(part[:, 0] for part in state)
        before, found, weights = [], [], []
        for projected in self.recurrence.project(embedded).unbind(1):
            queries = fold(cell[0][:, None], sentences=sentences)
            attended = attend(self.score(queries, context.keys), values=context.values, mask=context.mask)
            looked = unfold(attended.context, rows=rows).squeeze(1)
            before.append(cell[0])
            found.append(looked)
            weights.append(unfold(attended.weights, rows=rows))
            gates = projected + self.recurrence.project(looked, start=embedded.shape[-1])
            _, cell = self.recurrence.step(gates, cell)
        readout = self.readout(torch.cat([torch.stack(before, 1), embedded, torch.stack(found, 1)], dim=-1))
        hidden = F.dropout(readout.unflatten(-1, (-1, 2)).amax(dim=-1), self.dropout, self.training)
        return Output(hidden, torch.cat(weights, 1) if attention else None), tuple(part[:, None] for part in cell)
