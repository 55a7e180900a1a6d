"""Transformer blocks (Vaswani 2017, §3.1-3.3), and what may stand in their parts' places.

Letters: B sentences, K beams, N = B·K rows, S source, T target, P past, D width, H heads, d = D/H.
"""

from typing import Any, Literal, NamedTuple, assert_never

from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.feed_forward import ActivationName, FeedForward, build_feed_forward
from calque.layers.mixers import SSRU, AverageAttention
from calque.layers.multihead import Chunk, KeysValues, MultiHead, RelativeMultiHead
from calque.layers.normalisation import NormName, build_norm

NormPlace = Literal["pre", "post"]
MixerName = Literal["attention", "ssru", "average"]


class Dropouts(NamedTuple):
    """Where a block drops: what enters the residual stream, attention weights, the feed-forward's inside."""

    residual: float
    attention: float
    activation: float


class BlockShape(NamedTuple):
    """What all blocks of one side share."""

    width: int
    heads: int
    inner: int
    dropouts: Dropouts
    place: NormPlace = "pre"
    normalisation: NormName = "layer"
    activation: ActivationName = "relu"
    key_value_heads: int | None = None  # as many as heads
    reach: int | None = None  # of relative positions, where self-attention has them


class Residual(nn.Module):
    """The normalisation and residual sum around a sub-layer: norm before it (pre) or after the sum (post).

    post: x + f(x), then norm (Vaswani 2017, §3.1); pre: x + f(norm(x)) (Chen 2018; Xiong 2020).
    """

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        self.norm = build_norm(shape.normalisation, width=shape.width)
        self.place = shape.place
        self.dropout = shape.dropouts.residual

    def enter(self, stream: Tensor) -> Tensor:
        """What the sub-layer reads."""
        return self.norm(stream) if self.place == "pre" else stream

    def leave(self, stream: Tensor, found: Tensor) -> Tensor:
        """The stream after the sub-layer found `found`."""
        total = stream + F.dropout(found, self.dropout, self.training)
        return total if self.place == "pre" else self.norm(total)


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        self.attention = self_attention(shape)
        self.feed_forward = feed_forward(shape)
        self.around_attention = Residual(shape)
        self.around_feed_forward = Residual(shape)

    def forward(self, stream: Tensor, mask: Tensor, *, turn: Tensor | None = None) -> Tensor:
        """[B,S,D] from [B,S,D]; mask [B,1,1,S]; `turn` [1,S,d] where positions are rotary."""
        inputs = self.around_attention.enter(stream)
        found = self.attention(inputs, self.attention.remember(inputs, turn=turn), mask, turn=turn)
        stream = self.around_attention.leave(stream, found)
        return self.around_feed_forward.leave(stream, self.feed_forward(self.around_feed_forward.enter(stream)))


class Looked(NamedTuple):
    """A stream after attention over the memory; Q = K·T."""

    stream: Tensor  # [B,Q,D]
    found: Tensor  # [B,Q,D], what was added to it
    weights: Tensor | None  # [B,Q,S], when asked for


class DecoderBlock(nn.Module):
    """Causal self-attention over the past and the chunk (or what stands in its place), attention over the memory,
    then feed-forward."""

    def __init__(self, shape: BlockShape, *, memory_width: int, mixer: MixerName) -> None:
        super().__init__()
        self.self_attention = build_mixer(mixer, shape)
        self.cross_attention = MultiHead(
            shape.width,
            memory_width=memory_width,
            heads=shape.heads,
            dropout=shape.dropouts.attention,
            key_value_heads=shape.key_value_heads,
        )
        self.feed_forward = feed_forward(shape)
        self.around_self = Residual(shape)
        self.around_cross = Residual(shape)
        self.around_feed_forward = Residual(shape)

    def read(self, stream: Tensor, past: Any, chunk: Chunk) -> tuple[Tensor, Any]:
        """The stream [N,T,D] after self-attention, and the past with this chunk."""
        found, after = self.self_attention.read(self.around_self.enter(stream), past, chunk)
        return self.around_self.leave(stream, found), after

    def look(self, stream: Tensor, memory: KeysValues, mask: Tensor, *, attention: bool) -> Looked:
        """Attention of the stream [B,K·T,D], queries of one sentence together, over its memory."""
        queries = self.cross_attention.queries(self.around_cross.enter(stream))
        found = self.cross_attention.find(queries, memory, mask)
        weights = self.cross_attention.weights(queries, memory.keys, mask) if attention else None
        return Looked(self.around_cross.leave(stream, found), found, weights)

    def feed(self, stream: Tensor) -> Tensor:
        """The stream after feed-forward."""
        return self.around_feed_forward.leave(stream, self.feed_forward(self.around_feed_forward.enter(stream)))


def build_mixer(name: MixerName, shape: BlockShape) -> MultiHead | SSRU | AverageAttention:
    """What mixes a target token with those before it."""
    match name:
        case "attention":
            return self_attention(shape)
        case "ssru":
            return SSRU(shape.width)
        case "average":
            return AverageAttention(shape.width, feed_forward=feed_forward(shape))
        case _:
            assert_never(name)


def self_attention(shape: BlockShape) -> MultiHead:
    """Self-attention of that shape."""
    width, heads, dropout, grouped = shape.width, shape.heads, shape.dropouts.attention, shape.key_value_heads
    if shape.reach is not None:
        return RelativeMultiHead(width, heads=heads, dropout=dropout, reach=shape.reach, key_value_heads=grouped)
    return MultiHead(width, memory_width=width, heads=heads, dropout=dropout, key_value_heads=grouped)


def feed_forward(shape: BlockShape) -> FeedForward:
    """The feed-forward layer of that shape."""
    dropout = shape.dropouts.activation
    return build_feed_forward(shape.activation, width=shape.width, inner=shape.inner, dropout=dropout)
