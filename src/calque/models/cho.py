"""A decoder that reads a summary vector of the source at every step (Cho et al. 2014, "Learning Phrase Representations
using RNN Encoder-Decoder for Statistical Machine Translation").

Letters: B sentences, K beams, N = B·K hypotheses, T target, E embedding, D width, M memory width.
"""

from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from calque.config import Config
from calque.layers.bounds import Width
from calque.layers.dropout import dropout
from calque.layers.maxout import Maxout
from calque.layers.observers import RecurrentStep, StateLayer
from calque.models.interfaces import Decoder, Memory, MemoryShape, Output
from calque.models.recurrent import WordEmbedding
from calque.tensors import Slots, fold, unfold


class ChoConfig(Config):
    """A GRU decoder that reads the summary of the source at every step, with a maxout readout."""

    kind: Literal["cho"] = "cho"
    width: Width = 256
    """Width of the recurrent layer and of the summary."""
    embedding: Width = 256
    """Width of the word vectors."""
    readout: Width = 256
    """Number of maxout units in the readout."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """Dropout on the embeddings and on the readout."""


class ChoContext(NamedTuple):
    summary: Tensor  # [B,1,D], c
    gates: Tensor  # [B,1,3D], C c for each gate
    slots: Slots | None = None


class ChoState(NamedTuple):
    hidden: Tensor  # [N,D]


class ChoDecoder(Decoder[ChoState, ChoContext], StateLayer):
    """Cho's decoder: a GRU that reads a summary c of the source and the previous word y at every step (A.1.2).

    c = tanh(V h), where h is the encoder's final state; h'₀ = tanh(V' c); then for each previous word y:
    z, r = σ(W y + U h' + C c) each; h̃ = tanh(W y + r ∘ (U h' + C c)); h' = z ∘ h' + (1 − z) ∘ h̃;
    readout maxout(O_h h' + O_y y + O_c c).
    """

    has_fixed_state = True
    attends = False

    def __init__(self, config: ChoConfig, *, vocabulary_size: int, memory: MemoryShape) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary_size, width=config.embedding, dropout=config.dropout)
        self.summarise = nn.Linear(memory.width, config.width)
        self.first = nn.Linear(config.width, config.width)
        self.from_word = nn.Linear(config.embedding, 3 * config.width)  # gates r z h̃
        self.from_state = nn.Linear(config.width, 3 * config.width, bias=False)
        self.from_summary = nn.Linear(config.width, 3 * config.width, bias=False)
        self.readout = Maxout(2 * config.width + config.embedding, units=config.readout)
        self.dropout = config.dropout
        self.width = config.readout

    def prepare(self, memory: Memory) -> ChoContext:
        summary = self.summarise(memory.final[0][:, -1:]).tanh()
        return ChoContext(summary, self.from_summary(summary))

    def start(self, context: ChoContext) -> ChoState:
        return ChoState(self.first(context.summary[:, 0]).tanh())

    def forward(
        self, tokens: Tensor, state: ChoState, context: ChoContext, *, attention: bool = False
    ) -> tuple[Output, ChoState]:
        embedded = self.embedding(tokens)
        hidden, sentences = state.hidden, context.summary.shape[0]
        states = []
        for word in self.from_word(embedded).unbind(1):
            recurrent = fold(self.from_state(hidden)[:, None], sentences=sentences, slots=context.slots) + context.gates
            shares = unfold(recurrent, rows=tokens.shape[0], slots=context.slots).squeeze(1)
            before, hidden = hidden, self._step(word, shares, hidden)
            if self.state_observer is not None:
                self.state_observer(RecurrentStep(word, (before,), (hidden,), shares))
            states.append(hidden)
        hidden_states = torch.stack(states, dim=1)
        if context.slots is None:
            summary = context.summary.repeat_interleave(tokens.shape[0] // sentences, dim=0).expand_as(hidden_states)
        else:
            summary = context.summary[context.slots.sentences].expand_as(hidden_states)
        readout = self.readout(hidden_states, embedded, summary)
        return Output(dropout(readout, self.dropout, self.training)), ChoState(hidden)

    def _step(self, word: Tensor, recurrent: Tensor, hidden: Tensor) -> Tensor:
        """The next state h' [N,D] of the GRU after the state `hidden`.

        `word` and `recurrent` [N,3D] are contributions to the gates: of the previous word, and of state and summary.
        """
        sizes = [2 * hidden.shape[-1], hidden.shape[-1]]
        (gates, word_candidate), (recurrent_gates, recurrent_candidate) = (
            torch.split(word, sizes, dim=-1),
            torch.split(recurrent, sizes, dim=-1),
        )
        reset, update = (gates + recurrent_gates).sigmoid().chunk(2, dim=-1)
        candidate = (word_candidate + reset * recurrent_candidate).tanh()
        return update * hidden + (1 - update) * candidate
