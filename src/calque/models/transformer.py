"""The Transformer (Vaswani et al. 2017, "Attention Is All You Need").

Letters: B sentences, K beams, N = B·K hypotheses, S source, T target, P past, D width, H heads, d = D/H.
"""

from typing import Literal, NamedTuple, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config
from calque.layers.attention import fold, unfold
from calque.layers.positions import Sinusoids
from calque.layers.transformer import DecoderBlock, Dropouts, EncoderBlock, KeysValues, NormPlace
from calque.models.seam import Decoder, Encoder, Memory, MemoryShape, Output
from calque.tensors import Padded


class TransformerConfig(Config):
    """One side of a Transformer."""

    kind: Literal["transformer"] = "transformer"
    layers: int = Field(default=6, ge=1, le=256)
    """How many blocks."""
    width: int = Field(default=512, ge=2)
    """Width of embeddings and layers; even, and a multiple of heads."""
    heads: int = Field(default=8, ge=1)
    """How many attentions look side by side, each with width / heads."""
    feed_forward: int = Field(default=2048, ge=1)
    """Width inside the feed-forward layers."""
    norm: NormPlace = "pre"
    """Layer norm before each sub-layer (pre: trains easily) or after the residual sum (post: the paper)."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """On the embeddings and on what each sub-layer adds."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """On the attention weights."""
    activation_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Inside the feed-forward layers."""

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width {self.width} must be even and a multiple of heads {self.heads}")
        return self

    @property
    def dropouts(self) -> Dropouts:
        return Dropouts(self.dropout, self.attention_dropout, self.activation_dropout)


class TransformerEncoder(Encoder):
    """A stack of self-attention and feed-forward blocks."""

    def __init__(self, config: TransformerConfig, *, vocabulary_size: int) -> None:
        super().__init__()
        self.embedding = Embedding(config, vocabulary_size=vocabulary_size)
        self.blocks = nn.ModuleList(
            EncoderBlock(
                config.width,
                heads=config.heads,
                inner=config.feed_forward,
                norm=config.norm,
                dropouts=config.dropouts,
            )
            for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(config.width) if config.norm == "pre" else nn.Identity()
        self.shape = MemoryShape(width=config.width, layers=1, parts=1, inputs=config.width)
        initialise(self)

    def forward(self, source: Padded) -> Memory:
        size = source.values.shape[1]
        inputs = self.embedding(source.values, torch.arange(size, device=source.values.device)[None], size=size)
        mask = source.mask
        stream = inputs
        for block in self.blocks:
            stream = block(stream, mask[:, None, None])
        values = self.norm(stream)
        mean = values.masked_fill(~mask[..., None], 0).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        return Memory(values, mask, inputs, source.values, (mean[:, None],))


class TransformerContext(NamedTuple):
    memory: tuple[KeysValues, ...]  # a layer, [B,H,S,d]
    mask: Tensor  # [B,S]


class TransformerState(NamedTuple):
    """What was read.

    Row n's tokens are the last `position[n]` of P kept ones, so that prefixes of different length share a batch.
    """

    past: tuple[KeysValues, ...]  # a layer, [N,H,P,d]
    position: Tensor  # [N]


class TransformerDecoder(Decoder[TransformerState, TransformerContext]):
    """A stack of causal self-attention, attention over the memory and feed-forward blocks."""

    def __init__(self, config: TransformerConfig, *, vocabulary_size: int, memory: MemoryShape) -> None:
        super().__init__()
        self.embedding = Embedding(config, vocabulary_size=vocabulary_size)
        self.blocks = nn.ModuleList(
            DecoderBlock(
                config.width,
                memory_width=memory.width,
                heads=config.heads,
                inner=config.feed_forward,
                norm=config.norm,
                dropouts=config.dropouts,
            )
            for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(config.width) if config.norm == "pre" else nn.Identity()
        self.width = config.width
        self.heads = config.heads
        initialise(self)

    def prepare(self, memory: Memory) -> TransformerContext:
        kept = tuple(block.cross_attention.remember(memory.values) for block in self._blocks())
        return TransformerContext(kept, memory.mask)

    def start(self, context: TransformerContext) -> TransformerState:
        rows, like = context.mask.shape[0], context.memory[0].keys
        empty = like.new_zeros(rows, self.heads, 0, self.width // self.heads)
        position = torch.zeros(rows, dtype=torch.long, device=like.device)
        return TransformerState(tuple(KeysValues(empty, empty) for _ in self.blocks), position)

    def forward(
        self, tokens: Tensor, state: TransformerState, context: TransformerContext, *, attention: bool = False
    ) -> tuple[Output, TransformerState]:
        rows, size = tokens.shape
        past = state.past[0].keys.shape[2]
        places = state.position[:, None] + torch.arange(size, device=tokens.device)
        stream = self.embedding(tokens, places, size=past + size)
        # An empty past needs no mask: causality alone hides what is to come.
        reach = self_mask(state.position, past=past, size=size) if past else None
        sight = context.mask[:, None, None]
        weights, read = None, []
        for number, block in enumerate(self._blocks()):
            stream, kept = block.read(stream, state.past[number], reach)
            read.append(kept)
            stream = fold(stream, sentences=context.mask.shape[0])
            if attention and number == len(self.blocks) - 1:
                weights = unfold(block.looking(stream, context.memory[number], sight), rows=rows)
            stream = unfold(block.look(stream, context.memory[number], sight), rows=rows)
        return Output(self.norm(stream), weights), TransformerState(tuple(read), state.position + size)

    def _blocks(self) -> list[DecoderBlock]:
        return [block for block in self.blocks if isinstance(block, DecoderBlock)]


class Embedding(nn.Module):
    """√D times the token's vector plus its position's, dropped out (§3.4, §5.4)."""

    def __init__(self, config: TransformerConfig, *, vocabulary_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary_size, config.width))
        self.positions = Sinusoids(config.width)
        self.dropout = config.dropout
        nn.init.normal_(self.weight, std=config.width**-0.5)

    def forward(self, tokens: Tensor, places: Tensor, *, size: int) -> Tensor:
        """[N,T,D] from [N,T] tokens at [N,T] places, all of them below `size`."""
        scaled = F.embedding(tokens, self.weight) * self.weight.shape[1] ** 0.5
        return F.dropout(scaled + self.positions(places, size=size, like=scaled), self.dropout, self.training)


def self_mask(position: Tensor, *, past: int, size: int) -> Tensor:
    """[N,1,T,P+T], true where token t of the chunk may look: its row's own past, the chunk up to itself."""
    slots = torch.arange(past + size, device=position.device)
    after = slots >= past - position[:, None]  # [N,P+T]
    before = slots <= past + torch.arange(size, device=position.device)[:, None]  # [T,P+T]
    return (after[:, None] & before)[:, None]


def initialise(module: nn.Module) -> None:
    """Xavier-uniform matrices (keys and values as one) and zero biases."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            nn.init.zeros_(part.bias)
