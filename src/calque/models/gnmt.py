"""A deep decoder whose bottom layer attends for all layers (Wu et al. 2016, "Google's Neural Machine Translation
System").

Letters: B sentences, K beams, N = B·K hypotheses, S source, T target, E embedding, D width, M memory width, L layers.
"""

from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from calque.config import Config
from calque.layers.attention import AdditiveAttentionConfig, AttentionContext, AttentionState
from calque.layers.bounds import Layers, Width
from calque.layers.connections import Connection
from calque.layers.dropout import dropout
from calque.layers.recurrent import CellName, Recurrence, State
from calque.layers.stack import split_layers, stack_layers
from calque.models.attentional import AttentionalDecoder
from calque.models.bridge import Bridge, BridgeName
from calque.models.interfaces import Memory, MemoryShape, Output
from calque.models.recurrent import WordEmbedding


class GnmtConfig(Config):
    """A recurrent decoder whose bottom layer attends to the source for all layers.

    Wu et al. 2016.
    """

    kind: Literal["gnmt"] = "gnmt"
    cell: CellName = "lstm"
    """rnn, rnn-relu, lstm, gru or gru-original."""
    layers: Layers = 4
    """Number of recurrent layers."""
    width: Width = 256
    """Width of the recurrent layers."""
    embedding: Width = 256
    """Width of the word vectors."""
    connection: Literal["none", "residual", "highway"] = "residual"
    """Connections between layers, from the second layer on: none, residual or highway (gated residual)."""
    attention: AdditiveAttentionConfig = AdditiveAttentionConfig()
    bridge: BridgeName = "copy"
    """How the initial state is computed from the encoder's final states: copy, tanh, backward (Bahdanau's) or zero."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """Dropout on the embeddings, between layers and on the output."""
    copies: bool = False
    """Allow copying words from the source (See 2017); needs a joint vocabulary."""


class GnmtContext(NamedTuple):
    first: State  # (h,) or (h, c), each [B,L,D]
    attention: AttentionContext


class GnmtState(NamedTuple):
    cells: State  # (h,) or (h, c), each [N,L,D]
    attention: AttentionState


class GnmtDecoder(AttentionalDecoder[GnmtState, GnmtContext]):
    """GNMT's decoder: its bottom layer attends to the source, and all layers read the result (Wu 2016, §3, fig. 1).

    aᵢ is the attention of the bottom layer's state yᵢ₋₁ (eq. 4); every layer reads [x; aᵢ], where x is its input from
    below.
    """

    def __init__(self, config: GnmtConfig, *, vocabulary_size: int, memory: MemoryShape) -> None:
        super().__init__(config, memory=memory)
        self.embedding = WordEmbedding(vocabulary_size, width=config.embedding, dropout=config.dropout)
        self.bridge = Bridge(config.bridge, cell=config.cell, memory=memory, layers=config.layers, width=config.width)
        self.bottom = Recurrence(config.cell, input_width=config.embedding + memory.width, width=config.width)
        self.layers = nn.ModuleList(
            Recurrence(config.cell, input_width=config.width + memory.width, width=config.width)
            for _ in range(config.layers - 1)
        )
        self.connections = nn.ModuleList(
            Connection(config.connection, layer=layer, layers=config.layers, width=config.width)
            for layer in range(1, config.layers)
        )
        self.dropout = config.dropout
        self.width = config.width

    def prepare(self, memory: Memory) -> GnmtContext:
        return GnmtContext(self.bridge(memory), self.attention.prepare(memory.values, memory.mask))

    def start(self, context: GnmtContext) -> GnmtState:
        return GnmtState(context.first, self.attention.start(context.attention))

    def forward(
        self, tokens: Tensor, state: GnmtState, context: GnmtContext, *, attention: bool = False
    ) -> tuple[Output, GnmtState]:
        embedded = self.embedding(tokens)
        before = split_layers(state.cells)
        steps = self.attend_and_step(
            self.bottom, embedded, cell=before[0], attention_state=state.attention, context=context.attention
        )
        hidden, cells = steps.outputs, [steps.cell]
        for number, (layer, connection) in enumerate(zip(self.layers, self.connections, strict=True), start=1):
            inputs = torch.cat([dropout(hidden, self.dropout, self.training), steps.attended.context], dim=-1)
            outputs, cell = layer(inputs, before[number])
            hidden = connection(hidden, outputs)
            cells.append(cell)
        dropped = dropout(hidden, self.dropout, self.training)
        output = self.build_output(dropped, steps.attended, states=hidden, embedded=embedded, attention=attention)
        return output, GnmtState(stack_layers(cells), steps.attention)
