"""Attention with the decoder's current state (Luong et al. 2015, "Effective Approaches to Attention-based NMT").

Letters: B sentences, K beams, N = B·K hypotheses, S source, T target, E embedding, D width, M memory width, L layers.
"""

from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config
from calque.layers.attention import Attended, ScoreName, attend, build_score, fold, unfold
from calque.layers.recurrent import CellName, RecurrentStack
from calque.models.bridge import Bridge, BridgeName
from calque.models.recurrent import WordEmbedding
from calque.models.seam import Decoder, Memory, MemoryShape, Output


class LuongConfig(Config):
    """A recurrent decoder with global attention after its top layer."""

    kind: Literal["luong"] = "luong"
    cell: CellName = "lstm"
    """rnn, lstm, gru or gru-original."""
    layers: int = Field(default=2, ge=1, le=256)
    """How many recurrent layers stand on each other."""
    width: int = Field(default=256, ge=1)
    """Width of the recurrent layers and of the attentional vector."""
    embedding: int = Field(default=256, ge=1)
    """Width of the word vectors."""
    score: ScoreName = "general"
    """dot (needs equal widths), general or concat (§3.1)."""
    input_feeding: bool = True
    """Give each step the attentional vector of the one before (§3.3)."""
    bridge: BridgeName = "copy"
    """How the encoder's last states become the first here: copy, tanh (a layer), backward (Bahdanau's) or zero."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """On the embeddings, between layers and on the attentional vector."""


class LuongContext(NamedTuple):
    first: tuple[Tensor, ...]  # (h,) or (h, c), each [B,L,D]
    keys: Tensor  # [B,S,A]
    values: Tensor  # [B,S,M]
    mask: Tensor  # [B,S]


class LuongState(NamedTuple):
    recurrent: tuple[Tensor, ...]  # (h,) or (h, c), each [N,L,D]
    feed: Tensor | None  # [N,D], the last attentional vector, with input feeding


class LuongDecoder(Decoder[LuongState, LuongContext]):
    """h̃ₜ = tanh(W [cₜ; hₜ]), cₜ the attention of hₜ over the memory (eq. 5)."""

    def __init__(self, config: LuongConfig, *, vocabulary_size: int, memory: MemoryShape) -> None:
        super().__init__()
        if config.score == "dot" and config.width != memory.width:
            raise ValueError(
                f"score 'dot' needs equal widths: the decoder has {config.width}, the memory {memory.width}; "
                "use score = 'general'"
            )
        self.embedding = WordEmbedding(vocabulary_size, width=config.embedding, dropout=config.dropout)
        self.bridge = Bridge(config.bridge, cell=config.cell, memory=memory, layers=config.layers, width=config.width)
        self.stack = RecurrentStack(
            config.cell,
            input_width=config.embedding + (config.width if config.input_feeding else 0),
            width=config.width,
            layers=config.layers,
            dropout=config.dropout,
        )
        self.score = build_score(config.score, query_width=config.width, memory_width=memory.width)
        self.combine = nn.Linear(memory.width + config.width, config.width, bias=False)
        self.input_feeding = config.input_feeding
        self.dropout = config.dropout
        self.width = config.width

    def prepare(self, memory: Memory) -> LuongContext:
        return LuongContext(self.bridge(memory), self.score.keys(memory.values), memory.values, memory.mask)

    def start(self, context: LuongContext) -> LuongState:
        hidden = context.first[0]
        return LuongState(context.first, hidden.new_zeros(hidden.shape[0], self.width) if self.input_feeding else None)

    def forward(
        self, tokens: Tensor, state: LuongState, context: LuongContext, *, attention: bool = False
    ) -> tuple[Output, LuongState]:
        embedded = self.embedding(tokens)
        if state.feed is None:
            hidden, recurrent = self.stack(embedded, state.recurrent)
            attentional, weights = self._attend(hidden, context)
            after = LuongState(recurrent, None)
        else:
            attentional, weights, after = self._feed(embedded, state, context)
        hidden = F.dropout(attentional, self.dropout, self.training)
        return Output(hidden, weights if attention else None), after

    def _feed(self, embedded: Tensor, state: LuongState, context: LuongContext) -> tuple[Tensor, Tensor, LuongState]:
        """One step after the other; the embeddings' share of the gates is taken for all of them at once."""
        feed, recurrent = state.feed, state.recurrent
        assert feed is not None
        attentional, weights = [], []
        for projected in self.stack.first.project(embedded).unbind(1):
            gates = projected + self.stack.first.project(feed, start=embedded.shape[-1])
            hidden, recurrent = self.stack.step(gates, recurrent)
            found = self._attend(hidden[:, None], context)
            feed = found.context.squeeze(1)
            attentional.append(feed)
            weights.append(found.weights)
        return torch.stack(attentional, dim=1), torch.cat(weights, dim=1), LuongState(recurrent, feed)

    def _attend(self, hidden: Tensor, context: LuongContext) -> Attended:
        """The attentional vectors [N,T,D] of [N,T,D], and where they looked [N,T,S]."""
        rows = hidden.shape[0]
        queries = fold(hidden, sentences=context.mask.shape[0])
        found = attend(self.score(queries, context.keys), values=context.values, mask=context.mask)
        vectors = torch.tanh(self.combine(torch.cat([unfold(found.context, rows=rows), hidden], dim=-1)))
        return Attended(vectors, unfold(found.weights, rows=rows))
