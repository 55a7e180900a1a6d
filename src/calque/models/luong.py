"""Attention with the decoder's current state (Luong et al. 2015, "Effective Approaches to Attention-based NMT").

Letters: B sentences, K beams, N = B·K hypotheses, S source, T target, E embedding, D width, M memory width, L layers.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from calque.layers.attention import Attended, AttentionConfig, AttentionContext, AttentionState, join
from calque.layers.bounds import Width
from calque.layers.stack import RecurrentStack, StackConfig, StackState, apart, together
from calque.models.attentional import AttentionalDecoder
from calque.models.bridge import Bridge, BridgeName
from calque.models.interfaces import Memory, MemoryShape, Output
from calque.models.recurrent import WordEmbedding


class LuongConfig(StackConfig):
    """A recurrent decoder with attention after its top layer."""

    kind: Literal["luong"] = "luong"
    embedding: Width = 256
    """Width of the word vectors."""
    attention: AttentionConfig = AttentionConfig()
    input_feeding: bool = True
    """Give each step the attentional vector of the one before (§3.3)."""
    bridge: BridgeName = "copy"
    """How the encoder's last states become the first here: copy, tanh (a layer), backward (Bahdanau's) or zero."""
    copies: bool = False
    """Mix the vocabulary with the words of the source (See 2017); needs one vocabulary for both sides."""


class LuongContext(NamedTuple):
    first: tuple[Tensor, ...]  # (h,) or (h, c), each [B,L,D]
    attention: AttentionContext


class LuongState(NamedTuple):
    recurrent: StackState
    attention: AttentionState
    feed: Tensor | None  # [N,D], the last attentional vector, with input feeding


class Read(NamedTuple):
    """What T steps gave."""

    attentional: Tensor  # [N,T,D]
    hidden: Tensor  # [N,T,D], of the top layer
    found: Attended
    state: LuongState


class LuongDecoder(AttentionalDecoder[LuongState, LuongContext]):
    """h̃ₜ = tanh(W [cₜ; hₜ]), cₜ the attention of hₜ over the memory (eq. 5)."""

    def __init__(self, config: LuongConfig, *, vocabulary_size: int, memory: MemoryShape) -> None:
        super().__init__(config, memory=memory)
        self.embedding = WordEmbedding(vocabulary_size, width=config.embedding, dropout=config.embedding_dropout)
        self.bridge = Bridge(config.bridge, cell=config.cell, memory=memory, layers=config.layers, width=config.width)
        fed = config.width if config.input_feeding else 0
        self.stack = RecurrentStack(config, input_width=config.embedding + fed)
        self.combine = nn.Linear(memory.width + config.width, config.width, bias=False)
        self.input_feeding = config.input_feeding
        self.width = config.width

    def prepare(self, memory: Memory) -> LuongContext:
        return LuongContext(self.bridge(memory), self.attention.prepare(memory.values, memory.mask))

    def start(self, context: LuongContext) -> LuongState:
        hidden = context.first[0]
        feed = hidden.new_zeros(hidden.shape[0], self.width) if self.input_feeding else None
        return LuongState(self.stack.start(context.first), self.attention.start(context.attention), feed)

    def forward(
        self, tokens: Tensor, state: LuongState, context: LuongContext, *, attention: bool = False
    ) -> tuple[Output, LuongState]:
        embedded = self.embedding(tokens)
        read = (self._at_once if state.feed is None else self._feeding)(embedded, state, context)
        hidden = self.stack.leave(read.attentional, state.recurrent)
        output = self.give(hidden, read.found, states=read.hidden, embedded=embedded, attention=attention)
        return output, read.state

    def _at_once(self, embedded: Tensor, state: LuongState, context: LuongContext) -> Read:
        hidden, recurrent = self.stack(embedded, state.recurrent)
        found, looked = self.attention(hidden, state.attention, context.attention)
        return Read(self._attentional(found, hidden), hidden, found, LuongState(recurrent, looked, None))

    def _feeding(self, embedded: Tensor, state: LuongState, context: LuongContext) -> Read:
        """One step after the other; the embeddings' share of the gates is taken for all of them at once."""
        recurrent, looked, feed = state
        assert feed is not None
        steps: list[tuple[Tensor, Tensor, Attended]] = []
        levels, fed = apart(recurrent.parts), self.stack.entering(recurrent, start=embedded.shape[-1])
        entered, weights = self.stack.enter(embedded, recurrent).unbind(1), self.stack.weights(recurrent)
        for share, word in zip(entered, embedded.unbind(1), strict=True):
            gates = share + fed(feed)
            inputs = torch.cat([word, feed], dim=-1) if self.stack.config.connection == "dense" else word
            hidden, levels = self.stack.step(gates, levels, inputs=inputs, masks=recurrent.masks, weights=weights)
            found, looked = self.attention(hidden[:, None], looked, context.attention)
            feed = self._attentional(found, hidden[:, None]).squeeze(1)
            steps.append((feed, hidden, found))
        feeds, hiddens, founds = zip(*steps, strict=True)
        after = LuongState(recurrent._replace(parts=together(levels)), looked, feed)
        return Read(torch.stack(feeds, dim=1), torch.stack(hiddens, dim=1), join(list(founds)), after)

    def _attentional(self, found: Attended, hidden: Tensor) -> Tensor:
        return torch.tanh(self.combine(torch.cat([found.context, hidden], dim=-1)))
