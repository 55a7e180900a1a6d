"""The interfaces between encoders and decoders of all families.

Letters: B sentences, K beams, N = B·K hypotheses (sentence-major), S source, T target, D width, L layers, E embedding.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from torch import Tensor, nn

from calque.layers.reinforce import Draws
from calque.tensors import Padded, length_mask


class Memory(NamedTuple):
    """The encoded source; one row per sentence."""

    values: Tensor  # [B,S,D]
    mask: Tensor  # [B,S], true where there is a token
    inputs: Tensor  # [B,S,E], the embeddings
    tokens: Tensor | None  # [B,S], the ids, if the source consists of token ids
    final: tuple[Tensor, ...]  # (h,) or (h, c), each [B,L,D], directions concatenated; from a mean if not recurrent


class MemoryShape(NamedTuple):
    """The shape of an encoder's memory, which a decoder needs at construction."""

    width: int  # D of values and final
    layers: int  # L of final
    parts: int  # len(final)
    inputs: int  # E of inputs
    directions: int = 1  # of the top layer; with two, each has half of the width


class Inputs(nn.Module):
    """Computes the vectors that an encoder reads if the source is not token ids: words with features, or frames.

    Law: padding after the end of a row does not affect its vectors.
    """

    width: int  # E of the vectors

    def forward(self, source: Any) -> Padded:
        """The vectors [B,S,E]; their lengths, like those of the source, are on the CPU."""
        raise NotImplementedError


class Read(NamedTuple):
    """A source before encoding: token ids, or the vectors that `inputs` computed."""

    values: Tensor  # [B,S] ids, or [B,S,E] vectors
    lengths: Tensor  # [B], on the CPU
    device_lengths: Tensor  # [B], on the device of the values
    mask: Tensor  # [B,S], true for positions of the source
    tokens: Tensor | None  # [B,S], the ids, if the source consists of token ids


class Encoder(nn.Module):
    """Encodes a source: token ids, which it embeds itself, or vectors that its `inputs` compute."""

    shape: MemoryShape
    inputs: Inputs | None
    needs_host_lengths: bool = True  # the lengths of a source must be on the CPU; otherwise they may be anywhere

    def forward(self, source: Any) -> Memory:
        """The memory of a source: [B,S] ids, or whatever `inputs` accept. Law: padding does not affect the memory."""
        raise NotImplementedError

    def read(self, source: Any) -> Read:
        """The source as token ids or as the vectors of `inputs`, with the lengths after any subsampling by `inputs`."""
        if self.inputs is None:
            return _read(source, tokens=source.values)
        return _read(self.inputs(source), tokens=None)


def _read(source: Padded, *, tokens: Tensor | None) -> Read:
    device_lengths = source.device_lengths
    mask = length_mask(device_lengths, size=source.values.shape[1])
    return Read(source.values, source.lengths, device_lengths, mask, tokens)


class Output(NamedTuple):
    """The decoder's output for T target tokens."""

    hidden: Tensor  # [N,T,D], after the paper's readout: the input of the output layer
    attention: Tensor | None = None  # [N,T,S], if requested
    gate: Tensor | None = None  # [N,T], of copying decoders: its σ is the probability of generating, not copying
    copied: Tensor | None = None  # [N,T,S], of copying decoders: the copy distribution over source positions
    chosen: Tensor | None = None  # [N,T], log-probability of the sampled positions, in training with hard attention
    losses: Mapping[str, Tensor] = MappingProxyType({})  # auxiliary losses per token, weighted, [N,T] each


State = TypeVar("State")
Context = TypeVar("Context")


class Decoder(nn.Module, Generic[State, Context]):
    """A decoder, which reads target tokens left to right.   Law: reading x and then y equals reading x + y.

    States and contexts are trees of tensors with rows first; modules are stateless between calls.
    """

    width: int  # D of hidden
    draws: Draws | None = None  # how sampled source positions are trained, with hard attention
    attends: bool = True  # returns attention if requested
    parallel: bool = False  # processes T tokens in parallel, not one after the other
    has_fixed_state: bool = False  # the tensors of a state have the same shapes after every token

    def prepare(self, memory: Memory) -> Context:
        """The values that the decoder computes once per sentence, such as projected keys; one row per sentence."""
        raise NotImplementedError

    def start(self, context: Context) -> State:
        """The state before the first token; one row per sentence."""
        raise NotImplementedError

    def fixed(self, state: State, *, size: int) -> State | None:
        """The state before the first token in tensors whose shapes stay the same while up to `size` tokens are read.

        None if the decoder has no such state. With such a state, reading a token must not wait for the device, so that
        it can be captured in a CUDA graph.
        """
        return state if self.has_fixed_state else None

    def indexed(self, state: State) -> Any:
        """The state before the first token in the form that C kernels for decoding on a CPU read.

        It is `state` itself if they cannot be used; otherwise, `forward` reads one token per row without attention.
        """
        return state

    def forward(
        self, tokens: Tensor, state: State, context: Context, *, attention: bool = False
    ) -> tuple[Output, State]:
        """The output for target tokens [N,T] (all at once in training, one by one in decoding), and the next state."""
        raise NotImplementedError
