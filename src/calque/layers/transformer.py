"""Transformer blocks (Vaswani 2017, §3.1-3.3) and their variants.

Letters: B sentences, K beams, N = B·K rows, S source, T target, P past, D width, H heads, d = D/H.
"""

from typing import Any, Literal, NamedTuple, assert_never

from torch import Tensor, nn

from calque.layers.dropout import dropout
from calque.layers.feed_forward import ActivationName, FeedForward, build_feed_forward
from calque.layers.fused_linear import FusedLinear
from calque.layers.mixers import SSRU, AverageAttention
from calque.layers.multihead import Chunk, KeysValues, MultiHead, ReadTokens, RelativeMultiHead
from calque.layers.normalisation import NormName, build_norm
from calque.layers.observers import StateLayer
from calque.layers.row_attention import attend_cached, attend_shared
from calque.layers.row_linear import Rows, linear_rows, linear_sum
from calque.tensors import Slots, fold, unfold

NormPlace = Literal["pre", "post"]
MixerName = Literal["attention", "ssru", "average"]


class Dropouts(NamedTuple):
    """Dropout rates of a block: on sub-layer outputs, on attention weights, and inside the feed-forward layer."""

    residual: float
    attention: float
    activation: float


class BlockShape(NamedTuple):
    """The hyperparameters shared by all blocks of an encoder or decoder."""

    width: int
    heads: int
    inner: int
    dropouts: Dropouts
    place: NormPlace = "pre"
    normalisation: NormName = "layer"
    activation: ActivationName = "relu"
    key_value_heads: int | None = None  # None: as many as heads
    reach: int | None = None  # maximum distance of relative positions; None: no relative positions


class Residual(nn.Module):
    """The residual connection around a sub-layer, with normalisation before the sub-layer (pre) or after it (post).

    post: x + f(x), then norm (Vaswani 2017, §3.1); pre: x + f(norm(x)) (Chen 2018; Xiong 2020).
    """

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        self.norm = build_norm(shape.normalisation, width=shape.width)
        self.place = shape.place
        self.dropout = shape.dropouts.residual

    def enter(self, stream: Tensor) -> Tensor:
        """The input of the sub-layer: the residual stream, normalised if pre-norm."""
        return self.norm(stream) if self.place == "pre" else stream

    def leave(self, stream: Tensor, output: Tensor) -> Tensor:
        """The residual stream after the sub-layer: its `output` is added, with dropout, and normalised if post-norm."""
        total = stream + dropout(output, self.dropout, self.training)
        return total if self.place == "pre" else self.norm(total)

    def leave_through(self, stream: Tensor, layer: nn.Module, inputs: Tensor) -> Tensor:
        """`leave` for the output of a linear layer, given its inputs; the layer's kernel may also compute the sum."""
        if self.training or not isinstance(layer, FusedLinear):
            return self.leave(stream, layer(inputs))
        total = layer.fused(inputs, added=stream)
        return total if self.place == "pre" else self.norm(total)

    def start_rows(self, stream: Tensor) -> Rows:
        """The residual stream [N,D] before the first sub-layer, with the normalisation that comes next."""
        assert isinstance(self.norm, nn.LayerNorm)
        return Rows(stream, self.norm if self.place == "pre" else None)

    def leave_rows(self, stream: Rows, inputs: Tensor, layer: nn.Linear, *, following: nn.Module) -> Rows:
        """`leave`, and `enter` of the next sub-layer, whose norm is `following`; one token per row.

        `inputs` [N,·] are those of the sub-layer's last linear `layer`. `stream` was returned by `start_rows` or by
        this function for the sub-layer before.
        """
        added, norm = (Rows(stream.values), following) if self.place == "pre" else (stream, self.norm)
        assert isinstance(norm, nn.LayerNorm)
        return linear_sum(inputs, layer.weight, layer.bias, added=added, norm=norm)


class EncoderBlock(StateLayer):
    """A block of the Transformer encoder: self-attention, then a feed-forward layer."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        self.attention = self_attention(shape)
        self.feed_forward = feed_forward(shape)
        self.around_attention = Residual(shape)
        self.around_feed_forward = Residual(shape)

    def forward(self, stream: Tensor, mask: Tensor, *, turn: Tensor | None = None) -> Tensor:
        """The residual stream [B,S,D] after the block; `mask` is [B,1,1,S], `turn` [1,S,d] (see `rotate`)."""
        inputs, layer = self.around_attention.enter(stream), self.attention
        if layer.computes_natively(inputs):
            queries, keys_values = layer.queries_keys_values(inputs, turn=turn)
            heads = layer.attend_prefix(queries.transpose(1, 2).flatten(2), keys_values, mask[:, 0, 0])
            stream = self.around_attention.leave_through(stream, layer.out, heads)
        else:
            attended, _ = layer.self_attend(inputs, mask, turn=turn)
            stream = self.around_attention.leave(stream, attended)
        return self.observed_states(_feed(stream, self.feed_forward, around=self.around_feed_forward))


class CrossAttention(NamedTuple):
    """The result of attention over the source in a decoder block."""

    stream: Tensor  # [N,T,D]
    attended: Tensor | None  # [N,T,D], the attention output that was added to the stream, if requested
    weights: Tensor | None  # [N,T,S], if requested


class DecoderBlock(StateLayer):
    """A block of the Transformer decoder: causal self-attention (or another mixer), cross-attention, feed-forward."""

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
        """The residual stream [N,T,D] after self-attention, and the cache `past` extended by these T tokens."""
        if isinstance(past, ReadTokens):
            assert isinstance(self.self_attention, MultiHead)
            heads, read = self.self_attention.read_token(self.around_self.enter(stream), past, chunk)
            return self.around_self.leave_through(stream, self.self_attention.out, heads), read
        attended, after = self.self_attention.read(self.around_self.enter(stream), past, chunk)
        return self.around_self.leave(stream, attended), after

    def cross_attend(
        self, stream: Tensor, memory: KeysValues, mask: Tensor, *, slots: Slots | None, attention: bool
    ) -> CrossAttention:
        """Cross-attention of the residual stream [N,T,D] over the source, whose memory the rows of a sentence share."""
        layer, rows = self.cross_attention, stream.shape[0]
        projected = layer.query(self.around_cross.enter(stream))
        if not attention:
            attended = layer.attend_prefix(projected, memory, mask[:, 0, 0], slots=slots)
            return CrossAttention(self.around_cross.leave_through(stream, layer.out, attended), None, None)
        folded = fold(projected, sentences=mask.shape[0], slots=slots)
        queries = layer.split_heads(folded)
        heads = layer.attend(queries, memory, mask, causal=False).transpose(1, 2).flatten(2)
        attended = layer.out(unfold(heads, rows=rows, slots=slots))
        weights = unfold(layer.weights(queries, memory.keys, mask), rows=rows, slots=slots)
        return CrossAttention(self.around_cross.leave(stream, attended), attended, weights)

    def cross_attend_once(self, stream: Tensor, memory: KeysValues, *, lengths: Tensor) -> Tensor:
        """The residual stream [N,1,D] of one token after cross-attention over the first `lengths` [B] source tokens."""
        attended = self.cross_attention.attend_shared(self.around_cross.enter(stream), memory, lengths=lengths)
        return self.around_cross.leave(stream, attended)

    def read_rows(
        self,
        stream: Rows,
        past: KeysValues,
        chunk: Chunk,
        *,
        memory: KeysValues,
        lengths: Tensor,
        following: nn.Module,
    ) -> Rows:
        """The residual stream after the whole block, for one new token per row [N,D], with fewer kernels on a GPU.

        Equal to `read`, `cross_attend_once` and `feed` up to rounding. `past` is a cache of fixed size, `following` the
        norm of the next block's first sub-layer or the last norm.
        """
        mixer, cross, feed_forward = self.self_attention, self.cross_attention, self.feed_forward
        assert isinstance(mixer, MultiHead) and chunk.ancestors is not None
        rows, position = len(stream.values), chunk.places[:, 0]
        queries, keys, values = mixer.split_projected(linear_rows(stream, *mixer.joined_weights()))
        heads = attend_cached(queries, (keys, values), past, ancestors=chunk.ancestors, position=position)
        stream = self.around_self.leave_rows(stream, heads.view(rows, -1), mixer.out, following=self.around_cross.norm)
        queries = linear_rows(stream, cross.query.weight, cross.query.bias).view(rows, cross.heads, -1)
        heads = attend_shared(queries, *memory, lengths=lengths)
        norm = self.around_feed_forward.norm
        stream = self.around_cross.leave_rows(stream, heads.view(rows, -1), cross.out, following=norm)
        inner = linear_rows(stream, feed_forward.enter.weight, feed_forward.enter.bias, relu=True)
        return self.around_feed_forward.leave_rows(stream, inner, feed_forward.leave, following=following)

    @property
    def reads_rows(self) -> bool:
        """Whether `read_rows` supports this block: plain attention, layer norm and feed-forward (Vaswani 2017)."""
        is_plain = type(self.self_attention) is MultiHead and type(self.feed_forward) is FeedForward
        return is_plain and isinstance(self.around_self.norm, nn.LayerNorm) and not self.cross_attention.in_float64

    def feed(self, stream: Tensor) -> Tensor:
        """The residual stream after the feed-forward layer."""
        return self.observed_states(_feed(stream, self.feed_forward, around=self.around_feed_forward))


def _feed(stream: Tensor, layer: FeedForward, *, around: Residual) -> Tensor:
    """The residual stream after a feed-forward layer; `around` adds its residual connection and normalisation."""
    if not isinstance(layer.leave, FusedLinear):  # as a whole, since sharded training gathers the weights of modules
        return around.leave(stream, layer(around.enter(stream)))
    return around.leave_through(stream, layer.leave, layer.dropped(around.enter(stream)))


def build_mixer(name: MixerName, shape: BlockShape) -> MultiHead | SSRU | AverageAttention:
    """The layer called `name`, which combines a target token with those before it: self-attention or an alternative."""
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
    """A self-attention layer with the hyperparameters `shape`."""
    width, heads, dropout, grouped = shape.width, shape.heads, shape.dropouts.attention, shape.key_value_heads
    if shape.reach is not None:
        return RelativeMultiHead(width, heads=heads, dropout=dropout, reach=shape.reach, key_value_heads=grouped)
    return MultiHead(width, memory_width=width, heads=heads, dropout=dropout, key_value_heads=grouped)


def feed_forward(shape: BlockShape) -> FeedForward:
    """A feed-forward layer with the hyperparameters `shape`."""
    dropout = shape.dropouts.activation
    return build_feed_forward(shape.activation, width=shape.width, inner=shape.inner, dropout=dropout)
