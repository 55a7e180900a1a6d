"""The seam: what an encoder gives and how every decoder is read, whatever its family.

Letters: B sentences, K beams, N = B·K hypotheses (sentence-major), S source, T target, D width, L layers, E embedding.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from torch import Tensor, nn

from calque.layers.reinforce import Draws
from calque.tensors import Padded


class Memory(NamedTuple):
    """A source as its encoder left it; rows are sentences."""

    values: Tensor  # [B,S,D]
    mask: Tensor  # [B,S], true where there is a token
    inputs: Tensor  # [B,S,E], the embeddings
    tokens: Tensor  # [B,S], the ids
    final: tuple[Tensor, ...]  # (h,) or (h, c), each [B,L,D], directions merged; without recurrence the masked mean


class MemoryShape(NamedTuple):
    """What a decoder must know of an encoder before it has seen a memory."""

    width: int  # D of values and final
    layers: int  # L of final
    parts: int  # len(final)
    inputs: int  # E of inputs
    directions: int = 1  # in which the top layer reads; with two, each has half of the width


class Encoder(nn.Module):
    """Reads a source."""

    shape: MemoryShape

    def forward(self, source: Padded) -> Memory:
        """The memory of [B,S] ids. Law: what stands behind a row's length changes nothing."""
        raise NotImplementedError


class Output(NamedTuple):
    """What reading T target tokens gives."""

    hidden: Tensor  # [N,T,D], after the paper's readout: what the output layer projects
    attention: Tensor | None = None  # [N,T,S], when asked for
    gate: Tensor | None = None  # [N,T], by those that copy: its σ is how much the vocabulary counts, not the source
    copied: Tensor | None = None  # [N,T,S], by those that copy: how much each place of the source counts
    chosen: Tensor | None = None  # [N,T], log-probability of the positions drawn, in training with hard attention
    losses: Mapping[str, Tensor] = MappingProxyType({})  # [N,T] each, weighted: what is added to a token's loss


State = TypeVar("State")
Context = TypeVar("Context")


class Decoder(nn.Module, Generic[State, Context]):
    """Reads target tokens left to right.   Law: reading x and then y equals reading x + y.

    States and contexts are trees of tensors with rows first; no module keeps anything between calls.
    """

    width: int  # D of hidden
    draws: Draws | None = None  # positions of the source, in training: hard attention
    attends: bool = True  # gives attention when asked for it
    parallel: bool = False  # reads T tokens at once, not one after the other

    def prepare(self, memory: Memory) -> Context:
        """What is computed once a sentence: projected keys, first states. Rows are sentences."""
        raise NotImplementedError

    def start(self, context: Context) -> State:
        """The state before any token; one row a sentence."""
        raise NotImplementedError

    def forward(
        self, tokens: Tensor, state: State, context: Context, *, attention: bool = False
    ) -> tuple[Output, State]:
        """Reads [N,T] tokens. Training reads all of them at once, decoding one at a time: it is the same method."""
        raise NotImplementedError
