"""The Transformer (Vaswani et al. 2017, "Attention Is All You Need") and its published variants.

Letters: B sentences, K beams, N = B·K hypotheses, S source, T target, P past, D width, H heads, G key-value heads,
d = D/H, L layers.
"""

from typing import Any, Literal, NamedTuple, Self, assert_never

import torch
from pydantic import Field, ValidationInfo, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config, refuse_unused
from calque.layers.attention import fold, unfold
from calque.layers.bounds import Heads, Layers, Places, Width
from calque.layers.copying import CopyGate
from calque.layers.feed_forward import ActivationName
from calque.layers.multihead import Chunk, KeysValues
from calque.layers.normalisation import NormName, build_norm
from calque.layers.positions import LearnedPositions, PositionsName, Sinusoids
from calque.layers.transformer import BlockShape, DecoderBlock, Dropouts, EncoderBlock, MixerName, NormPlace
from calque.models.interfaces import Decoder, Encoder, Memory, MemoryShape, Output
from calque.tensors import Padded


class TransformerConfig(Config):
    """One side of a Transformer: what both sides can be told."""

    kind: Literal["transformer"] = "transformer"
    layers: Layers = 6
    """How many blocks."""
    width: Width = 512
    """Width of embeddings and layers; even, and a multiple of heads."""
    heads: Heads = 8
    """How many attentions look side by side, each with width / heads."""
    key_value_heads: Heads | None = None
    """How many keys and values the heads share between them (Ainslie 2023); it divides heads. Left out: no sharing."""
    feed_forward: Width = 2048
    """Width inside the feed-forward layers."""
    activation: ActivationName = "relu"
    """Inside the feed-forward layers: relu (the paper), gelu or swiglu (Shazeer 2020; half as many weights again)."""
    positions: PositionsName = "sinusoidal"
    """sinusoidal (the paper) and learned are added to the embeddings; rotary (Su 2021) turns the queries and keys of
    self-attention; relative (Shaw 2018) adds a vector for their distance."""
    maximum_positions: Places = 1024
    """How many learned positions there are; tokens beyond them share the last one."""
    relative_reach: Places = 16
    """The longest distance with a vector of its own where positions are relative."""
    norm: NormPlace = "pre"
    """Norm before each sub-layer (pre: trains easily) or after the residual sum (post: the paper)."""
    normalisation: NormName = "layer"
    """layer (the paper), or rms (Zhang and Sennrich 2019), which is not centred."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """On what each sub-layer adds, and on the embeddings unless they have their own."""
    embedding_dropout: float | None = Field(default=None, ge=0, lt=1)
    """On the embeddings. Left out: as dropout."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """On the attention weights."""
    activation_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Inside the feed-forward layers."""

    @model_validator(mode="after")
    def _fitting(self, info: ValidationInfo) -> Self:
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width {self.width} must be even and a multiple of heads {self.heads}")
        if self.heads % (self.key_value_heads or 1):
            raise ValueError(f"heads {self.heads} must be a multiple of key_value_heads {self.key_value_heads}")
        if self.positions == "rotary" and self.head_width % 2:
            raise ValueError(f"positions 'rotary' turn pairs: width / heads is {self.head_width} and must be even")
        refuse_unused(
            self,
            {
                "maximum_positions": (self.positions == "learned", "positions = 'learned'"),
                "relative_reach": (self.positions == "relative", "positions = 'relative'"),
            },
            info,
        )
        return self

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def shape(self) -> BlockShape:
        return BlockShape(
            width=self.width,
            heads=self.heads,
            inner=self.feed_forward,
            dropouts=Dropouts(self.dropout, self.attention_dropout, self.activation_dropout),
            place=self.norm,
            normalisation=self.normalisation,
            activation=self.activation,
            key_value_heads=self.key_value_heads,
            reach=self.relative_reach if self.positions == "relative" else None,
        )


class TransformerEncoderConfig(TransformerConfig):
    """The side that reads the source."""


class TransformerEncoder(Encoder):
    """A stack of self-attention and feed-forward blocks."""

    def __init__(self, config: TransformerEncoderConfig, *, vocabulary_size: int) -> None:
        super().__init__()
        self.embedding = Embedding(config, vocabulary_size=vocabulary_size)
        self.rotary = Sinusoids(config.head_width) if config.positions == "rotary" else None
        self.blocks = nn.ModuleList(EncoderBlock(config.shape) for _ in range(config.layers))
        self.norm = last_norm(config)
        self.shape = MemoryShape(width=config.width, layers=1, parts=1, inputs=config.width)
        initialise(self)

    def forward(self, source: Padded) -> Memory:
        size = source.values.shape[1]
        places = torch.arange(size, device=source.values.device)[None]
        inputs = self.embedding(source.values, places, size=size)
        turn = None if self.rotary is None else self.rotary(places, size=size, like=inputs)
        mask = source.mask
        stream = inputs
        for block in self.blocks:
            stream = block(stream, mask[:, None, None], turn=turn)
        values = self.norm(stream)
        mean = values.masked_fill(~mask[..., None], 0).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        return Memory(values, mask, inputs, source.values, (mean[:, None],))


class TransformerContext(NamedTuple):
    memory: tuple[KeysValues, ...]  # a layer, [B,G,S,d]
    mask: Tensor  # [B,S]


class TransformerState(NamedTuple):
    """What was read: all of it, or where the mixer is no attention, what it carries.

    Row n's tokens are the last `position[n]` of P kept ones, so that prefixes of different length share a batch.
    """

    past: tuple[KeysValues, ...]  # a layer, [N,G,P,d]; empty where the mixer is no attention
    position: Tensor  # [N]
    carried: Tensor | None = None  # [N,L,D]: the cells of SSRU, the sums of average attention


class TransformerDecoderConfig(TransformerConfig):
    """The side that reads the target."""

    mixer: MixerName = "attention"
    """What mixes a token with those before it: attention (the paper), ssru (Kim 2019) or average (Zhang 2018).
    The last two carry one vector a layer however long the text is, and decode faster."""
    copies: bool = False
    """Mix the vocabulary with the words of the source (See 2017); needs one vocabulary for both sides."""
    attention_layer: Layers | None = None
    """The block, from 1, whose attention (the mean of its heads) is shown, guided and copied by. Left out: the last."""

    @model_validator(mode="after")
    def _layer_is_there(self) -> Self:
        if self.attention_layer is not None and self.attention_layer > self.layers:
            raise ValueError(f"attention_layer {self.attention_layer} must be one of the {self.layers} layers")
        return self

    @model_validator(mode="after")
    def _positions_are_used(self) -> Self:
        if self.mixer != "attention" and self.positions in ("rotary", "relative"):
            raise ValueError(
                f"positions {self.positions!r} are part of self-attention, which mixer {self.mixer!r} replaces; "
                "use positions = 'sinusoidal' or 'learned'"
            )
        return self


class TransformerDecoder(Decoder[TransformerState, TransformerContext]):
    """A stack of causal self-attention (or another mixer), attention over the memory and feed-forward blocks."""

    parallel = True

    def __init__(self, config: TransformerDecoderConfig, *, vocabulary_size: int, memory: MemoryShape) -> None:
        super().__init__()
        self.embedding = Embedding(config, vocabulary_size=vocabulary_size)
        self.rotary = Sinusoids(config.head_width) if config.positions == "rotary" else None
        self.blocks = nn.ModuleList(
            DecoderBlock(config.shape, memory_width=memory.width, mixer=config.mixer) for _ in range(config.layers)
        )
        self.norm = last_norm(config)
        width = config.width
        self.copy_gate = CopyGate(context=width, state=width, inputs=width) if config.copies else None
        self.keeps_all = config.mixer == "attention"
        self.shown = (config.attention_layer or config.layers) - 1
        self.width = config.width
        initialise(self)

    def prepare(self, memory: Memory) -> TransformerContext:
        kept = tuple(block.cross_attention.remember(memory.values) for block in self._blocks())
        return TransformerContext(kept, memory.mask)

    def start(self, context: TransformerContext) -> TransformerState:
        rows, like = context.mask.shape[0], context.memory[0].keys
        position = torch.zeros(rows, dtype=torch.long, device=like.device)
        return self._state([block.self_attention.start(rows, like=like) for block in self._blocks()], position)

    def forward(
        self, tokens: Tensor, state: TransformerState, context: TransformerContext, *, attention: bool = False
    ) -> tuple[Output, TransformerState]:
        rows, size = tokens.shape
        past = state.past[0].keys.shape[2] if state.past else 0
        room = past + size if state.past else None
        places = state.position[:, None] + torch.arange(size, device=tokens.device)
        inputs = self.embedding(tokens, places, size=room)
        mask = self_mask(state.position, past=past, size=size) if past else None
        chunk = Chunk(places, mask, None if self.rotary is None else self.rotary(places, size=room, like=inputs))
        before = state.past if state.carried is None else state.carried.unbind(1)
        sight = context.mask[:, None, None]
        is_told = attention or self.copy_gate is not None
        stream, after, shown = inputs, [], None
        for number, block in enumerate(self._blocks()):
            stream, kept = block.read(stream, before[number], chunk)
            after.append(kept)
            stream = fold(stream, sentences=context.mask.shape[0])
            looked = block.look(stream, context.memory[number], sight, attention=is_told and number == self.shown)
            stream = unfold(block.feed(looked.stream), rows=rows)
            shown = looked if number == self.shown else shown
        assert shown is not None
        weights = None if shown.weights is None else unfold(shown.weights, rows=rows)
        hidden = self.norm(stream)
        gate = None if self.copy_gate is None else self.copy_gate(unfold(shown.found, rows=rows), hidden, inputs)
        output = Output(hidden, weights if attention else None, gate, None if gate is None else weights)
        return output, self._state(after, state.position + size)

    def _state(self, layers: list[Any], position: Tensor) -> TransformerState:
        """The state of what each layer keeps or carries."""
        if self.keeps_all:
            return TransformerState(tuple(layers), position)
        return TransformerState((), position, torch.stack(layers, dim=1))

    def _blocks(self) -> list[DecoderBlock]:
        return [block for block in self.blocks if isinstance(block, DecoderBlock)]


class Embedding(nn.Module):
    """√D times the token's vector plus, unless self-attention knows it, its position's, dropped out (§3.4, §5.4)."""

    def __init__(self, config: TransformerConfig, *, vocabulary_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary_size, config.width))
        self.positions = added_positions(config)
        self.dropout = config.dropout if config.embedding_dropout is None else config.embedding_dropout
        nn.init.normal_(self.weight, std=config.width**-0.5)

    def forward(self, tokens: Tensor, places: Tensor, *, size: int | None) -> Tensor:
        """[N,T,D] from [N,T] tokens at [N,T] places, all of them below `size` where that is known."""
        vectors = F.embedding(tokens, self.weight) * self.weight.shape[1] ** 0.5
        if self.positions is not None:
            vectors = vectors + self.positions(places, size=size, like=vectors)
        return F.dropout(vectors, self.dropout, self.training)


def added_positions(config: TransformerConfig) -> Sinusoids | LearnedPositions | None:
    """The positions that are added to embeddings, if any are."""
    match config.positions:
        case "sinusoidal":
            return Sinusoids(config.width)
        case "learned":
            return LearnedPositions(config.width, maximum=config.maximum_positions)
        case "rotary" | "relative":
            return None
        case _:
            assert_never(config.positions)


def last_norm(config: TransformerConfig) -> nn.Module:
    """A pre-norm stack normalises once more at its top."""
    return build_norm(config.normalisation, width=config.width) if config.norm == "pre" else nn.Identity()


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
            if part.bias is not None:
                nn.init.zeros_(part.bias)
