"""Additive attention with the previous state (Bahdanau et al. 2015, "NMT by Jointly Learning to Align and Translate").

Letters: B sentences, K beams, N = B·K hypotheses, S source, T target, E embedding, D width, M memory width.
"""

from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from calque.config import Config
from calque.layers.attention import (
    AdditiveAttentionConfig,
    Attended,
    Attention,
    AttentionContext,
    AttentionState,
    join,
)
from calque.layers.copying import CopyGate
from calque.layers.maxout import Maxout
from calque.layers.recurrent import CellName, Recurrence, State
from calque.models.bridge import Bridge, BridgeName
from calque.models.recurrent import WordEmbedding
from calque.models.seam import Decoder, Memory, MemoryShape, Output


class BahdanauConfig(Config):
    """One recurrent layer that attends before each step, with a deep output of maxout units."""

    kind: Literal["bahdanau"] = "bahdanau"
    cell: CellName = "gru-original"
    """rnn, rnn-relu, lstm, gru or gru-original (the paper's)."""
    width: int = Field(default=256, ge=1)
    """Width of the recurrent layer."""
    embedding: int = Field(default=256, ge=1)
    """Width of the word vectors."""
    attention: AdditiveAttentionConfig = AdditiveAttentionConfig()
    readout: int = Field(default=256, ge=1)
    """How many maxout units the deep output has."""
    bridge: BridgeName = "backward"
    """The paper's first state is tanh(W ←h₁), from the backward direction; also copy, tanh, zero."""
    copies: bool = False
    """Mix the vocabulary with the words of the source (See 2017); needs one vocabulary for both sides."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """On the embeddings and on the readout."""


class BahdanauContext(NamedTuple):
    first: State  # (s,) or (s, c), each [B,1,D]
    attention: AttentionContext


class BahdanauState(NamedTuple):
    cell: State  # (s,) or (s, c), each [N,D]
    attention: AttentionState


class BahdanauDecoder(Decoder[BahdanauState, BahdanauContext]):
    """sᵢ = f(sᵢ₋₁, yᵢ₋₁, cᵢ), cᵢ the attention of sᵢ₋₁; readout maxout(U sᵢ₋₁ + V E yᵢ₋₁ + C cᵢ) (A.2.2)."""

    def __init__(self, config: BahdanauConfig, *, vocabulary_size: int, memory: MemoryShape) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary_size, width=config.embedding, dropout=config.dropout)
        self.bridge = Bridge(config.bridge, cell=config.cell, memory=memory, layers=1, width=config.width)
        self.recurrence = Recurrence(config.cell, input_width=config.embedding + memory.width, width=config.width)
        self.attention = Attention(config.attention, query_width=config.width, memory_width=memory.width)
        self.readout = Maxout(config.width + config.embedding + memory.width, units=config.readout)
        self.copy_gate = (
            CopyGate(context=memory.width, state=config.width, inputs=config.embedding) if config.copies else None
        )
        self.dropout = config.dropout
        self.width = config.readout
        self.draws = config.attention.choice == "hard"

    def prepare(self, memory: Memory) -> BahdanauContext:
        return BahdanauContext(self.bridge(memory), self.attention.prepare(memory.values, memory.mask))

    def start(self, context: BahdanauContext) -> BahdanauState:
        return BahdanauState(tuple(part[:, 0] for part in context.first), self.attention.start(context.attention))

    def forward(
        self, tokens: Tensor, state: BahdanauState, context: BahdanauContext, *, attention: bool = False
    ) -> tuple[Output, BahdanauState]:
        embedded = self.embedding(tokens)
        cell, looked = state
        steps: list[tuple[Tensor, Attended]] = []
        for projected in self.recurrence.project(embedded).unbind(1):
            each, looked = self.attention(cell[0][:, None], looked, context.attention)
            steps.append((cell[0], each))
            gates = projected + self.recurrence.project(each.context[:, 0], start=embedded.shape[-1])
            _, cell = self.recurrence.step(gates, cell)
        before = torch.stack([hidden for hidden, _ in steps], dim=1)
        found = join([each for _, each in steps])
        hidden = F.dropout(self.readout(before, embedded, found.context), self.dropout, self.training)
        gate = None if self.copy_gate is None else self.copy_gate(found.context, before, embedded)
        weights = found.weights if attention or gate is not None else None
        return Output(hidden, weights, gate, found.chosen, found.losses), BahdanauState(cell, looked)
