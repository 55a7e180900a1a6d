"""The interfaces between encoders and decoders of all families.

Letters: B sentences, K beams, N = B·K hypotheses (sentence-major), S source, T target, D width, L layers, E embedding.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from torch import Tensor, nn

from calque.layers.reinforce import Draws
from calque.tensors import Padded


class Memory(NamedTuple):
    """The encoded source; rows are sentences."""

    values: Tensor  # [B,S,D]
    mask: Tensor  # [B,S], true where there is a token
    inputs: Tensor  # [B,S,E], the embeddings
    tokens: Tensor | None  # [B,S], the ids, where the source is made of tokens
    final: tuple[Tensor, ...]  # (h,) or (h, c), each [B,L,D], directions concatenated; the mean if not recurrent


class MemoryShape(NamedTuple):
    """The shape of an encoder's memory, which a decoder needs at construction."""

    width: int  # D of values and final
    layers: int  # L of final
    parts: int  # len(final)
    inputs: int  # E of inputs
    directions: int = 1  # of the top layer; with two, each has half of the width


class Inputs(nn.Module):
    """The vectors that an encoder reads, from a source that is not made of tokens: words of several parts, or frames.

    Law: what lies behind a row's length does not affect its vectors.
    """

    width: int  # E of the vectors

    def forward(self, source: Any) -> Padded:
        """[B,S,E] vectors; their lengths are on the host, as those of the source are."""
        raise NotImplementedError


class Read(NamedTuple):
    """A source as an encoder begins with it."""

    values: Tensor  # [B,S] ids, or [B,S,E] vectors
    lengths: Tensor  # [B], on the CPU
    mask: Tensor  # [B,S], true for positions of the source
    tokens: Tensor | None  # [B,S], the ids, where there are some


class Encoder(nn.Module):
    """Encodes a source: token ids, which it embeds itself, or what its `inputs` make vectors of."""

    shape: MemoryShape
    inputs: Inputs | None

    def forward(self, source: Any) -> Memory:
        """The memory of [B,S] ids, or of what the inputs read. Law: padding does not affect it."""
        raise NotImplementedError

    def read(self, source: Any) -> Read:
        """The source as ids or vectors, with lengths after any subsampling."""
        if self.inputs is None:
            return Read(source.values, source.lengths, source.mask, source.values)
        vectors: Padded = self.inputs(source)
        return Read(vectors.values, vectors.lengths, vectors.mask, None)


class Output(NamedTuple):
    """The decoder's output for T target tokens."""

    hidden: Tensor  # [N,T,D], after the paper's readout: the input of the output layer
    attention: Tensor | None = None  # [N,T,S], if requested
    gate: Tensor | None = None  # [N,T], of copying decoders: its σ is the weight of the vocabulary against copying
    copied: Tensor | None = None  # [N,T,S], of copying decoders: the copy distribution over source positions
    chosen: Tensor | None = None  # [N,T], log-probability of the sampled positions, in training with hard attention
    losses: Mapping[str, Tensor] = MappingProxyType({})  # auxiliary losses per token, weighted, [N,T] each


State = TypeVar("State")
Context = TypeVar("Context")


class Decoder(nn.Module, Generic[State, Context]):
    """Reads target tokens left to right.   Law: reading x and then y equals reading x + y.

    States and contexts are trees of tensors with rows first; modules are stateless between calls.
    """

    width: int  # D of hidden
    draws: Draws | None = None  # how sampled source positions are trained, with hard attention
    attends: bool = True  # returns attention if requested
    parallel: bool = False  # processes T tokens in parallel, not one after the other

    def prepare(self, memory: Memory) -> Context:
        """What is computed once per sentence: projected keys, initial states. Rows are sentences."""
        raise NotImplementedError

    def start(self, context: Context) -> State:
        """The state before the first token; one row per sentence."""
        raise NotImplementedError

    def forward(
        self, tokens: Tensor, state: State, context: Context, *, attention: bool = False
    ) -> tuple[Output, State]:
        """Reads [N,T] tokens: all at once in training, one at a time in decoding."""
        raise NotImplementedError
