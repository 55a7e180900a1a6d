"""Transformer blocks (Vaswani 2017, §3.1-3.3).

Letters: B sentences, K beams, N = B·K rows, S source, T target, P past, D width, H heads, d = D/H.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

NormPlace = Literal["pre", "post"]


class KeysValues(NamedTuple):
    """What attention looks at."""

    keys: Tensor  # [N,H,S,d]
    values: Tensor  # [N,H,S,d]


class Dropouts(NamedTuple):
    """Where a block drops: what enters the residual stream, attention weights, the feed-forward's inside."""

    residual: float
    attention: float
    activation: float


class MultiHead(nn.Module):
    """Multi-head attention; queries, keys and values are projected apart so that keys can be kept."""

    def __init__(self, width: int, *, memory_width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(memory_width, 2 * width)
        self.out = nn.Linear(width, width)

    def remember(self, memory: Tensor) -> KeysValues:
        """Keys and values of [B,S,M]."""
        keys, values = self.key_value(memory).chunk(2, dim=-1)
        return KeysValues(self._split(keys), self._split(values))

    def forward(self, inputs: Tensor, memory: KeysValues, mask: Tensor | None, *, causal: bool = False) -> Tensor:
        """[B,Q,D] from queries [B,Q,D]; `mask` broadcasts to [B,H,Q,S] and is true where a query may look."""
        dropout = self.dropout if self.training else 0.0
        found = F.scaled_dot_product_attention(
            self._split(self.query(inputs)), *memory, attn_mask=mask, dropout_p=dropout, is_causal=causal
        )
        return self.out(found.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def weights(self, inputs: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        """[B,Q,S], where the queries look: softmax(q·k/√d), the mean over heads."""
        queries = self._split(self.query(inputs))
        scores = queries @ keys.transpose(2, 3) * queries.shape[-1] ** -0.5
        weights: Tensor = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        return weights.mean(dim=1)

    def _split(self, rows: Tensor) -> Tensor:
        return rows.view(*rows.shape[:2], self.heads, -1).transpose(1, 2)


class FeedForward(nn.Module):
    """max(0, x W₁ + b₁) W₂ + b₂ (eq. 2)."""

    def __init__(self, width: int, *, inner: int, dropout: float) -> None:
        super().__init__()
        self.enter = nn.Linear(width, inner)
        self.leave = nn.Linear(inner, width)
        self.dropout = dropout

    def forward(self, inputs: Tensor) -> Tensor:
        inside = F.dropout(self.enter(inputs).relu(), self.dropout, self.training)
        return self.leave(inside)  # type: ignore[no-any-return]


class Residual(nn.Module):
    """The normalisation and residual sum around a sub-layer: norm before it (pre) or after the sum (post).

    post: x + f(x), then norm (Vaswani 2017, §3.1); pre: x + f(norm(x)) (Chen 2018; Xiong 2020).
    """

    def __init__(self, width: int, *, place: NormPlace, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.place = place
        self.dropout = dropout

    def enter(self, stream: Tensor) -> Tensor:
        """What the sub-layer reads."""
        return self.norm(stream) if self.place == "pre" else stream

    def leave(self, stream: Tensor, found: Tensor) -> Tensor:
        """The stream after the sub-layer found `found`."""
        total = stream + F.dropout(found, self.dropout, self.training)
        return total if self.place == "pre" else self.norm(total)


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, width: int, *, heads: int, inner: int, norm: NormPlace, dropouts: Dropouts) -> None:
        super().__init__()
        self.attention = MultiHead(width, memory_width=width, heads=heads, dropout=dropouts.attention)
        self.feed_forward = FeedForward(width, inner=inner, dropout=dropouts.activation)
        self.around_attention = Residual(width, place=norm, dropout=dropouts.residual)
        self.around_feed_forward = Residual(width, place=norm, dropout=dropouts.residual)

    def forward(self, stream: Tensor, mask: Tensor) -> Tensor:
        """[B,S,D] from [B,S,D]; mask [B,1,1,S]."""
        inputs = self.around_attention.enter(stream)
        stream = self.around_attention.leave(stream, self.attention(inputs, self.attention.remember(inputs), mask))
        return _feed(self.around_feed_forward, self.feed_forward, stream)


class DecoderBlock(nn.Module):
    """Causal self-attention over the past and the chunk, attention over the memory, then feed-forward."""

    def __init__(
        self, width: int, *, memory_width: int, heads: int, inner: int, norm: NormPlace, dropouts: Dropouts
    ) -> None:
        super().__init__()
        self.self_attention = MultiHead(width, memory_width=width, heads=heads, dropout=dropouts.attention)
        self.cross_attention = MultiHead(width, memory_width=memory_width, heads=heads, dropout=dropouts.attention)
        self.feed_forward = FeedForward(width, inner=inner, dropout=dropouts.activation)
        self.around_self = Residual(width, place=norm, dropout=dropouts.residual)
        self.around_cross = Residual(width, place=norm, dropout=dropouts.residual)
        self.around_feed_forward = Residual(width, place=norm, dropout=dropouts.residual)

    def read(self, stream: Tensor, past: KeysValues, mask: Tensor | None) -> tuple[Tensor, KeysValues]:
        """The stream [N,T,D] after self-attention, and the past with this chunk; without a mask there is no past."""
        inputs = self.around_self.enter(stream)
        new = self.self_attention.remember(inputs)
        if mask is not None:
            new = KeysValues(torch.cat([past.keys, new.keys], dim=2), torch.cat([past.values, new.values], dim=2))
        found = self.self_attention(inputs, new, mask, causal=mask is None)
        return self.around_self.leave(stream, found), new

    def look(self, stream: Tensor, memory: KeysValues, mask: Tensor) -> Tensor:
        """The stream [B,K·T,D], queries of one sentence together, after attention over its memory and feed-forward."""
        found = self.cross_attention(self.around_cross.enter(stream), memory, mask)
        return _feed(self.around_feed_forward, self.feed_forward, self.around_cross.leave(stream, found))

    def looking(self, stream: Tensor, memory: KeysValues, mask: Tensor) -> Tensor:
        """[B,K·T,S], where `look` looks."""
        return self.cross_attention.weights(self.around_cross.enter(stream), memory.keys, mask)


def _feed(around: Residual, feed_forward: FeedForward, stream: Tensor) -> Tensor:
    return around.leave(stream, feed_forward(around.enter(stream)))
