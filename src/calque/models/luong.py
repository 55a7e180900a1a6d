"""Attention with the decoder's current state (Luong et al. 2015, "Effective Approaches to Attention-based NMT").

Letters: B sentences, K beams, N = B·K hypotheses, S source, T target, E embedding, D width, M memory width, L layers.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from calque.layers.attention import Attended, AttentionConfig, AttentionContext, AttentionState, join
from calque.layers.bounds import Width
from calque.layers.stack import RecurrentStack, StackConfig, StackState, split_layers, stack_layers
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
    """Feed the attentional vector of the previous step to each step (§3.3)."""
    bridge: BridgeName = "copy"
    """How the initial state is computed from the encoder's final states: copy, tanh, backward (Bahdanau's) or zero."""
    copies: bool = False
    """Allow copying words from the source (See 2017); needs a joint vocabulary."""


class LuongContext(NamedTuple):
    first: tuple[Tensor, ...]  # (h,) or (h, c), each [B,L,D]
    attention: AttentionContext


class LuongState(NamedTuple):
    recurrent: StackState
    attention: AttentionState
    feed: Tensor | None  # [N,D], the last attentional vector, with input feeding


class LuongSteps(NamedTuple):
    """The result of T time steps of Luong's decoder."""

    attentional: Tensor  # [N,T,D]
    hidden: Tensor  # [N,T,D], of the top layer
    attended: Attended
    state: LuongState


class LuongDecoder(AttentionalDecoder[LuongState, LuongContext]):
    """Luong's decoder, which attends with the top layer's current state hₜ (Luong 2015, eq. 5).

    The output is the attentional vector h̃ₜ = tanh(W [cₜ; hₜ]), where cₜ is the attention of hₜ over the source.
    """

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
        steps = (self._in_parallel if state.feed is None else self._with_feeding)(embedded, state, context)
        hidden = self.stack.leave(steps.attentional, state.recurrent)
        output = self.build_output(hidden, steps.attended, states=steps.hidden, embedded=embedded, attention=attention)
        return output, steps.state

    def _in_parallel(self, embedded: Tensor, state: LuongState, context: LuongContext) -> LuongSteps:
        hidden, recurrent = self.stack(embedded, state.recurrent)
        attended, attention_state = self.attention(hidden, state.attention, context.attention)
        return LuongSteps(
            self._attentional(attended, hidden), hidden, attended, LuongState(recurrent, attention_state, None)
        )

    def _with_feeding(self, embedded: Tensor, state: LuongState, context: LuongContext) -> LuongSteps:
        """The decoder's steps one at a time: with input feeding, each reads the attentional vector of the one before.

        Only the embeddings' contribution to the gates is computed for all steps at once.
        """
        recurrent, attention_state, feed = state
        assert feed is not None
        steps: list[tuple[Tensor, Tensor, Attended]] = []
        levels, project_feed = split_layers(recurrent.parts), self.stack.entering(recurrent, start=embedded.shape[-1])
        entered, weights = self.stack.enter(embedded, recurrent).unbind(1), self.stack.weights(recurrent)
        for projected, word in zip(entered, embedded.unbind(1), strict=True):
            gates = projected + project_feed(feed)
            inputs = torch.cat([word, feed], dim=-1) if self.stack.config.connection == "dense" else word
            hidden, levels = self.stack.step(gates, levels, inputs=inputs, masks=recurrent.masks, weights=weights)
            attended, attention_state = self.attention(hidden[:, None], attention_state, context.attention)
            feed = self._attentional(attended, hidden[:, None]).squeeze(1)
            steps.append((feed, hidden, attended))
        feeds, all_hidden, all_attended = zip(*steps, strict=True)
        after = LuongState(recurrent._replace(parts=stack_layers(levels)), attention_state, feed)
        return LuongSteps(torch.stack(feeds, dim=1), torch.stack(all_hidden, dim=1), join(list(all_attended)), after)

    def _attentional(self, attended: Attended, hidden: Tensor) -> Tensor:
        return torch.tanh(self.combine(torch.cat([attended.context, hidden], dim=-1)))
