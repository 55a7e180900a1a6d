"""Self-attention over events with times and behaviour types, after ATRank (Zhou et al. 2018, §3).

Letters: B rows, T events, D width, V items, A behaviour types.
"""

from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from calque.config import Config
from calque.layers.bounds import Heads, Layers, Width
from calque.layers.dropout import dropout
from calque.layers.embedding import embed
from calque.layers.observers import StateLayer
from calque.layers.time_attention import TimeAttention, time_buckets
from calque.layers.transformer import BlockShape, Dropouts, Residual, feed_forward
from calque.models.transformer import initialise


class TimeAwareConfig(Config):
    """Causal self-attention over events that have times and behaviour types."""

    kind: Literal["time-aware"] = "time-aware"
    layers: Layers = 1
    """Number of blocks."""
    width: Width = 64
    """Width of item vectors and layers, a multiple of heads."""
    heads: Heads = 8
    """Number of attention heads."""
    feed_forward: Width = 64
    """Width inside the feed-forward layers."""
    buckets: int = Field(default=32, ge=2, le=63)
    """Number of time buckets; bucket b holds events from 2^(b−1) to 2^b seconds before the prediction."""
    times: bool = True
    """Read the times of events."""
    behaviours: bool = True
    """Read the behaviour types of events."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """Dropout on the item vectors and on the output of each sub-layer."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout on the attention weights."""

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} must be a multiple of heads {self.heads}")
        return self

    @property
    def shape(self) -> BlockShape:
        return BlockShape(
            width=self.width,
            heads=self.heads,
            inner=self.feed_forward,
            dropouts=Dropouts(self.dropout, self.attention_dropout, 0.0),
        )


class TimeAwareBlock(StateLayer):
    """A block: attention over events, then a feed-forward layer."""

    def __init__(self, config: TimeAwareConfig) -> None:
        super().__init__()
        shape = config.shape
        buckets = config.buckets if config.times else 1
        self.self_attention = TimeAttention(
            config.width, heads=config.heads, buckets=buckets, dropout=config.attention_dropout
        )
        self.feed_forward = feed_forward(shape)
        self.around_attention = Residual(shape)
        self.around_feed_forward = Residual(shape)

    def forward(self, stream: Tensor, buckets: Tensor) -> Tensor:
        """The residual stream [B,T,D] after the block."""
        attended = self.self_attention(self.around_attention.enter(stream), buckets)
        stream = self.around_attention.leave(stream, attended)
        fed = self.feed_forward(self.around_feed_forward.enter(stream))
        return self.observed_states(self.around_feed_forward.leave(stream, fed))


class TimeAwareNetwork(nn.Module):
    """Item vectors plus a vector per behaviour type, then blocks of attention with time buckets; no output layer.

    There are no positions: the time since an event takes their place.
    """

    def __init__(self, config: TimeAwareConfig, *, vocabulary_size: int, behaviours: int) -> None:
        super().__init__()
        self.config = config
        self.weight = nn.Parameter(torch.empty(vocabulary_size, config.width))
        self.behaviours = nn.Parameter(torch.empty(behaviours, config.width)) if config.behaviours else None
        self.blocks = nn.ModuleList(TimeAwareBlock(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.width = config.width
        for vectors in (self.weight, self.behaviours):
            if vectors is not None:
                nn.init.normal_(vectors, std=config.width**-0.5)
        initialise(self)

    def forward(
        self, items: Tensor, *, times: Tensor | None, asked: Tensor | None, behaviours: Tensor | None
    ) -> Tensor:
        """The outputs [B,T,D] for items [B,T] at `times` [B,T], to predict what follows at the times `asked` [B,T]."""
        stream = embed(items, self.weight)
        if self.behaviours is not None:
            assert behaviours is not None
            stream = stream + embed(behaviours, self.behaviours)
        stream = dropout(stream * self.width**0.5, self.config.dropout, self.training)
        rows, size = items.shape
        if self.config.times:
            assert times is not None and asked is not None
            buckets = time_buckets(asked, times, count=self.config.buckets)
        else:
            buckets = torch.zeros(rows, size, size, dtype=torch.long, device=items.device)
        for block in self.blocks:
            stream = block(stream, buckets)
        return self.norm(stream)  # type: ignore[no-any-return]
