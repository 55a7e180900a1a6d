"""Additive attention with the previous state (Bahdanau et al. 2015, "NMT by Jointly Learning to Align and Translate").

Letters: B sentences, K beams, N = B·K hypotheses, S source, T target, E embedding, D width, M memory width.
"""

from typing import Literal, NamedTuple

from pydantic import Field
from torch import Tensor

from calque.config import Config
from calque.layers.attention import AdditiveAttentionConfig, AttentionContext, AttentionState
from calque.layers.bounds import Width
from calque.layers.dropout import dropout
from calque.layers.maxout import Maxout
from calque.layers.recurrent import CellName, Recurrence, State
from calque.models.attentional import AttentionalDecoder
from calque.models.bridge import Bridge, BridgeName
from calque.models.interfaces import Memory, MemoryShape, Output
from calque.models.recurrent import WordEmbedding


class BahdanauConfig(Config):
    """One recurrent layer that attends before each step, with a deep output of maxout units."""

    kind: Literal["bahdanau"] = "bahdanau"
    cell: CellName = "gru-original"
    """rnn, rnn-relu, lstm, gru or gru-original (the paper's)."""
    width: Width = 256
    """Width of the recurrent layer."""
    embedding: Width = 256
    """Width of the word vectors."""
    attention: AdditiveAttentionConfig = AdditiveAttentionConfig()
    readout: Width = 256
    """Number of maxout units in the deep output."""
    bridge: BridgeName = "backward"
    """How the initial state is computed from the encoder's final states: backward (the paper), copy, tanh or zero."""
    copies: bool = False
    """Allow copying words from the source (See 2017); needs a joint vocabulary."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """Dropout on the embeddings and on the readout."""


class BahdanauContext(NamedTuple):
    first: State  # (s,) or (s, c), each [B,1,D]
    attention: AttentionContext


class BahdanauState(NamedTuple):
    cell: State  # (s,) or (s, c), each [N,D]
    attention: AttentionState


class BahdanauDecoder(AttentionalDecoder[BahdanauState, BahdanauContext]):
    """Bahdanau's decoder: attends with the previous state, then makes a recurrent step (Bahdanau 2015, A.2.2).

    sᵢ = f(sᵢ₋₁, yᵢ₋₁, cᵢ), where cᵢ is the attention of sᵢ₋₁; the readout is maxout(U sᵢ₋₁ + V E yᵢ₋₁ + C cᵢ).
    """

    def __init__(self, config: BahdanauConfig, *, vocabulary_size: int, memory: MemoryShape) -> None:
        super().__init__(config, memory=memory)
        self.embedding = WordEmbedding(vocabulary_size, width=config.embedding, dropout=config.dropout)
        self.bridge = Bridge(config.bridge, cell=config.cell, memory=memory, layers=1, width=config.width)
        self.recurrence = Recurrence(config.cell, input_width=config.embedding + memory.width, width=config.width)
        self.readout = Maxout(config.width + config.embedding + memory.width, units=config.readout)
        self.dropout = config.dropout
        self.width = config.readout

    def prepare(self, memory: Memory) -> BahdanauContext:
        return BahdanauContext(self.bridge(memory), self.attention.prepare(memory.values, memory.mask))

    def start(self, context: BahdanauContext) -> BahdanauState:
        return BahdanauState(tuple(part[:, 0] for part in context.first), self.attention.start(context.attention))

    def forward(
        self, tokens: Tensor, state: BahdanauState, context: BahdanauContext, *, attention: bool = False
    ) -> tuple[Output, BahdanauState]:
        embedded = self.embedding(tokens)
        steps = self.attend_and_step(
            self.recurrence, embedded, cell=state.cell, attention_state=state.attention, context=context.attention
        )
        readout = self.readout(steps.before, embedded, steps.attended.context)
        hidden = dropout(readout, self.dropout, self.training)
        output = self.build_output(hidden, steps.attended, states=steps.before, embedded=embedded, attention=attention)
        return output, BahdanauState(steps.cell, steps.attention)
