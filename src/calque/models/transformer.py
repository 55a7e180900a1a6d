"""The Transformer (Vaswani et al. 2017, "Attention Is All You Need") and its published variants.

Letters: B sentences, K beams, N = B·K hypotheses, S source, T target, P past, D width, H heads, G key-value heads,
d = D/H, L layers.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self, assert_never

import torch
from pydantic import Field, ValidationInfo, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config, refuse_unused
from calque.layers.bounds import Heads, Layers, Places, Width
from calque.layers.copying import CopyGate
from calque.layers.dropout import dropout
from calque.layers.embedding import embed, embed_at
from calque.layers.feed_forward import ActivationName
from calque.layers.multihead import Chunk, KeysValues, MultiHead, ReadTokens
from calque.layers.normalisation import NormName, build_norm
from calque.layers.positions import LearnedPositions, PositionsName, Sinusoids
from calque.layers.transformer import BlockShape, DecoderBlock, Dropouts, EncoderBlock, MixerName, NormPlace
from calque.models.interfaces import Decoder, Encoder, Inputs, Memory, MemoryShape, Output
from calque.tensors import Slots, select_rows


class TransformerConfig(Config):
    """The settings common to encoder and decoder."""

    kind: Literal["transformer"] = "transformer"
    layers: Layers = 6
    """Number of blocks."""
    width: Width = 512
    """Width of embeddings and layers; it must be even and a multiple of heads."""
    heads: Heads = 8
    """Number of attention heads, each of width / heads."""
    key_value_heads: Heads | None = None
    """Number of key-value heads that the heads share (Ainslie 2023), a divisor of heads; by default, no sharing."""
    feed_forward: Width = 2048
    """Width inside the feed-forward layers."""
    activation: ActivationName = "relu"
    """Activation of the feed-forward layers: relu (the paper), gelu or swiglu (Shazeer 2020; 50 % more weights)."""
    positions: PositionsName = "sinusoidal"
    """sinusoidal (the paper) and learned are added to the embeddings; rotary (Su 2021) rotates the queries and keys of
    self-attention; relative (Shaw 2018) adds a vector per distance between the two."""
    maximum_positions: Places = 1024
    """Number of learned positions; later positions share the last one."""
    relative_reach: Places = 16
    """With relative positions, the maximum distance that has its own vector."""
    norm: NormPlace = "pre"
    """Normalise before each sub-layer (pre: easier to train) or after the residual sum (post: the paper)."""
    normalisation: NormName = "layer"
    """layer (the paper), or rms (Zhang and Sennrich 2019), which is not centred."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout on the output of each sub-layer, and on the embeddings unless embedding_dropout is set."""
    embedding_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout on the embeddings; by default, the same as dropout."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout on the attention weights."""
    activation_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout inside the feed-forward layers."""

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> Self:
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width {self.width} must be even and a multiple of heads {self.heads}")
        if self.heads % (self.key_value_heads or 1):
            raise ValueError(f"heads {self.heads} must be a multiple of key_value_heads {self.key_value_heads}")
        if self.positions == "rotary" and self.head_width % 2:
            raise ValueError(
                f"positions = 'rotary' needs an even width per head, but width / heads is {self.head_width}"
            )
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
    """A Transformer encoder."""


class TransformerEncoder(Encoder):
    """The Transformer encoder: a stack of blocks of self-attention and feed-forward layers."""

    def __init__(
        self, config: TransformerEncoderConfig, *, vocabulary_size: int = 0, inputs: Inputs | None = None
    ) -> None:
        super().__init__()
        self.inputs = inputs
        self.needs_host_lengths = inputs is not None
        self.embedding = (
            Embedding(config, vocabulary_size=vocabulary_size)
            if inputs is None
            else ProjectedVectors(config, width=inputs.width)
        )
        self.rotary = Sinusoids(config.head_width) if config.positions == "rotary" else None
        self.blocks = nn.ModuleList(EncoderBlock(config.shape) for _ in range(config.layers))
        self.norm = last_norm(config)
        self.shape = MemoryShape(width=config.width, layers=1, parts=1, inputs=config.width)
        initialise(self)

    def forward(self, source: Any) -> Memory:
        read = self.read(source)
        size = read.values.shape[1]
        positions = torch.arange(size, device=read.values.device)[None]
        inputs = self.embedding(read.values, positions, size=size)
        turn = None if self.rotary is None else self.rotary(positions, size=size, like=inputs)
        mask = read.mask
        stream = inputs
        for block in self.blocks:
            stream = block(stream, mask[:, None, None], turn=turn)
        values = self.norm(stream)
        mean = values.masked_fill(~mask[..., None], 0).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        return Memory(values, mask, inputs, read.tokens, (mean[:, None],))


class TransformerContext(NamedTuple):
    memory: tuple[KeysValues, ...]  # [B,G,S,d] per layer
    mask: Tensor  # [B,S]
    lengths: Tensor  # [B], the number of true values in the mask, which come first
    slots: Slots | None = None


class TransformerState(NamedTuple):
    """The state of a Transformer decoder: cached keys and values of the prefix, or the state vectors of another mixer.

    The tokens of row n are the last `position[n]` of the P cached ones, so that prefixes of different lengths can share
    a batch.
    """

    past: tuple[KeysValues, ...]  # [N,G,P,d] per layer; empty if the mixer is not attention
    position: Tensor  # [N]
    carried: Tensor | None = None  # [N,L,D]: the cells of SSRU, the sums of average attention
    ancestors: Tensor | None = None  # [N,P], if caches have a fixed size: the row that holds the token at each position

    @classmethod
    def of_layers(cls, layers: Sequence[Any], position: Tensor, *, ancestors: Tensor | None = None) -> Self:
        """The state of a Transformer, given the states of its layers and the number of tokens read, `position` [N]."""
        if isinstance(layers[0], KeysValues):
            return cls(tuple(layers), position, ancestors=ancestors)
        return cls((), position, torch.stack(list(layers), dim=1))

    def fixed(self, *, size: int) -> Self:
        """An empty state whose caches hold up to `size` tokens per row; those of row n are the first `position[n]`."""
        if not self.past:
            return self
        rows = len(self.position)
        caches = tuple(
            KeysValues(*(part.new_zeros(rows, part.shape[1], size, part.shape[3]) for part in layer))
            for layer in self.past
        )
        return type(self)(caches, self.position, ancestors=own_rows(rows, size=size, device=self.position.device))

    def moved(self, rows: Tensor, *, size: int) -> Self:
        """A copy of these rows of a preallocated state, with room for `size` tokens.

        `rows` must contain all hypotheses of each of its sentences, next to each other and in their order.
        """
        if self.ancestors is None:
            return self.select(rows)
        offsets = (torch.arange(len(rows), device=rows.device) - rows).to(torch.int32)
        ancestors, extra = self.ancestors.index_select(0, rows) + offsets[:, None], size - self.ancestors.shape[1]
        ancestors = torch.cat([ancestors, own_rows(len(rows), size=extra, device=rows.device)], dim=1)
        caches = tuple(
            KeysValues(*(F.pad(part.index_select(0, rows), (0, 0, 0, extra)) for part in layer)) for layer in self.past
        )
        return type(self)(caches, self.position.index_select(0, rows), ancestors=ancestors)

    def select(self, rows: Tensor) -> Self:
        """These rows of the state; in decoding on a CPU, copied with room for one more token in the caches.

        The decoder may read such a copy only once, because it writes the next token into that room. Caches of fixed
        size are not copied: only the index of ancestors changes.
        """
        if self.ancestors is not None:
            ancestors = self.ancestors.index_select(0, rows)
            return self._replace(position=self.position.index_select(0, rows), ancestors=ancestors)
        if torch.is_grad_enabled() or rows.device.type != "cpu":
            past = select_rows(self.past, rows)
        else:
            past = tuple(layer.select_with_room(rows) for layer in self.past)
        return type(self)(past, self.position.index_select(0, rows), select_rows(self.carried, rows))

    @property
    def layers(self) -> Sequence[Any]:
        """The state of each layer: its cached keys and values, or the state vector of another mixer."""
        return self.past if self.carried is None else self.carried.unbind(1)


class IndexedState(NamedTuple):
    """The state of a Transformer decoder for kernels that decode on a CPU, which read one token per row at a time.

    Selecting hypotheses changes only the index of ancestors; keys and values stay where they are.
    """

    layers: tuple[ReadTokens, ...]
    ancestors: Tensor  # [N,P], int32: which row of each position's keys and values has the token of a hypothesis
    position: Tensor  # [N]

    def select(self, rows: Tensor) -> Self:
        """The state of the hypotheses with the indices `rows`, in their order."""
        return self._replace(
            ancestors=self.ancestors.index_select(0, rows), position=self.position.index_select(0, rows)
        )


def own_rows(rows: int, *, size: int, device: torch.device) -> Tensor:
    """An index of ancestors [N,size] before any token is read: every hypothesis is its own ancestor."""
    return torch.arange(rows, dtype=torch.int32, device=device)[:, None].repeat(1, size)


class CausalTransformerConfig(TransformerConfig):
    """A Transformer in which each position attends to itself and to earlier positions only."""

    mixer: MixerName = "attention"
    """How a token is combined with those before it: attention (the paper), ssru (Kim 2019) or average (Zhang 2018).
    The last two carry one vector per layer whatever the length of the text, and decode faster."""

    @model_validator(mode="after")
    def _positions_are_used(self) -> Self:
        if self.mixer != "attention" and self.positions in ("rotary", "relative"):
            raise ValueError(
                f"positions {self.positions!r} are part of self-attention, which mixer {self.mixer!r} replaces; "
                "use positions = 'sinusoidal' or 'learned'"
            )
        return self


class TransformerDecoderConfig(CausalTransformerConfig):
    """A Transformer decoder."""

    copies: bool = False
    """Allow copying words from the source (See 2017); needs a joint vocabulary."""
    attention_layer: Layers | None = None
    """The block, counted from 1, whose attention (averaged over heads) is output, trained by guided alignment and used
    for copying; by default, the last."""

    @model_validator(mode="after")
    def _layer_exists(self) -> Self:
        if self.attention_layer is not None and self.attention_layer > self.layers:
            raise ValueError(
                f"attention_layer is {self.attention_layer}: it must be between 1 and layers = {self.layers}"
            )
        return self


class TransformerDecoder(Decoder[TransformerState, TransformerContext]):
    """The Transformer decoder: blocks of causal self-attention (or another mixer), cross-attention, feed-forward."""

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
        self.shown = (config.attention_layer or config.layers) - 1
        self.width = config.width
        mixers = [block.self_attention for block in self._blocks()]
        self.has_fixed_state = all(getattr(mixer, "has_fixed_cache", True) for mixer in mixers)
        initialise(self)

    def prepare(self, memory: Memory) -> TransformerContext:
        memories = tuple(block.cross_attention.remember(memory.values) for block in self._blocks())
        if not torch.is_grad_enabled():  # contiguous per head, so that no step of decoding copies them
            memories = tuple(KeysValues(keys.contiguous(), values.contiguous()) for keys, values in memories)
        return TransformerContext(memories, memory.mask, memory.mask.sum(dim=1))

    def start(self, context: TransformerContext) -> TransformerState:
        rows, like = context.mask.shape[0], context.memory[0].keys
        position = torch.zeros(rows, dtype=torch.long, device=like.device)
        layers = [block.self_attention.start(rows, like=like) for block in self._blocks()]
        return TransformerState.of_layers(layers, position)

    def fixed(self, state: TransformerState, *, size: int) -> TransformerState | None:
        return state.fixed(size=size) if self.has_fixed_state else None

    def indexed(self, state: TransformerState) -> TransformerState | IndexedState:
        mixers = [block.self_attention for block in self._blocks()]
        if self.rotary is not None or self.copy_gate is not None or not state.past:
            return state
        keys = state.past[0].keys
        if not all(isinstance(mixer, MultiHead) and mixer.computes_natively(keys) for mixer in mixers):
            return state
        ancestors = torch.empty(len(state.position), 0, dtype=torch.int32)
        return IndexedState(tuple(ReadTokens.none() for _ in mixers), ancestors, state.position)

    def forward(
        self, tokens: Tensor, state: Any, context: TransformerContext, *, attention: bool = False
    ) -> tuple[Output, Any]:
        if isinstance(state, IndexedState):
            assert not attention and tokens.shape[1] == 1
            return self._read_indexed(tokens, state, context)
        if state.ancestors is not None and not attention and self.copy_gate is None:
            return self._read_fixed(tokens, state, context)
        size = tokens.shape[1]
        inputs, chunk = embed_chunk(tokens, state, embedding=self.embedding, rotary=self.rotary)
        before = state.layers
        source_mask = context.mask[:, None, None]
        needs_attention = attention or self.copy_gate is not None
        stream, after, shown = inputs, [], None
        for number, block in enumerate(self._blocks()):
            stream, layer_state = block.read(stream, before[number], chunk)
            after.append(layer_state)
            cross = block.cross_attend(
                stream,
                context.memory[number],
                source_mask,
                slots=context.slots,
                attention=needs_attention and number == self.shown,
            )
            stream = block.feed(cross.stream)
            shown = cross if number == self.shown else shown
        assert shown is not None
        weights = shown.weights
        hidden = self.norm(stream)
        gate = None if self.copy_gate is None else self.copy_gate(shown.attended, hidden, inputs)
        output = Output(hidden, weights if attention else None, gate, None if gate is None else weights)
        return output, TransformerState.of_layers(after, state.position + size)

    def _read_fixed(
        self, tokens: Tensor, state: TransformerState, context: TransformerContext
    ) -> tuple[Output, TransformerState]:
        """`forward` for one token per row, with caches of fixed size; all sentences must have equally many rows."""
        stream, chunk = embed_chunk(tokens, state, embedding=self.embedding, rotary=self.rotary)
        blocks = self._blocks()
        if self.rotary is None and all(block.reads_rows for block in blocks):
            following = [*(block.around_self.norm for block in blocks[1:]), self.norm]
            rows = blocks[0].around_self.start_rows(stream[:, 0])
            for block, past, memory, norm in zip(blocks, state.past, context.memory, following, strict=True):
                rows = block.read_rows(rows, past, chunk, memory=memory, lengths=context.lengths, following=norm)
            return Output(rows.normalised()[:, None]), state._replace(position=state.position + 1)
        for block, past, memory in zip(blocks, state.past, context.memory, strict=True):
            stream, _ = block.read(stream, past, chunk)
            stream = block.feed(block.cross_attend_once(stream, memory, lengths=context.lengths))
        return Output(self.norm(stream)), state._replace(position=state.position + 1)

    def _read_indexed(
        self, tokens: Tensor, state: IndexedState, context: TransformerContext
    ) -> tuple[Output, IndexedState]:
        """`forward` for one token per row, with the C kernels for decoding on a CPU."""
        positions = state.position[:, None]
        stream = self.embedding(tokens, positions, size=state.ancestors.shape[1] + 1)
        own = torch.arange(len(tokens), dtype=torch.int32)[:, None]
        ancestors = torch.cat([state.ancestors, own], dim=1)
        chunk, mask, after = Chunk(positions, None, None, ancestors=ancestors), context.mask[:, None, None], []
        for block, past, memory in zip(self._blocks(), state.layers, context.memory, strict=True):
            stream, read = block.read(stream, past, chunk)
            after.append(read)
            stream = block.cross_attend(stream, memory, mask, slots=context.slots, attention=False).stream
            stream = block.feed(stream)
        return Output(self.norm(stream)), IndexedState(tuple(after), ancestors, state.position + 1)

    def _blocks(self) -> list[DecoderBlock]:
        return [block for block in self.blocks if isinstance(block, DecoderBlock)]


class Embedding(nn.Module):
    """√D times the token's vector, plus a position vector if positions are added; with dropout (§3.4, §5.4)."""

    def __init__(self, config: TransformerConfig, *, vocabulary_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary_size, config.width))
        self.positions = added_positions(config)
        self.dropout = config.dropout if config.embedding_dropout is None else config.embedding_dropout
        nn.init.normal_(self.weight, std=config.width**-0.5)

    def forward(self, tokens: Tensor, places: Tensor, *, size: int | None) -> Tensor:
        """The vectors [N,T,D] of tokens [N,T] at positions `places` [N,T], all below `size` if given."""
        vectors = embed(tokens, self.weight) * self.weight.shape[1] ** 0.5
        if self.positions is not None:
            vectors = vectors + self.positions(places, size=size, like=vectors)
        return dropout(vectors, self.dropout, self.training)

    def next_vectors(self, tokens: Tensor, places: Tensor, *, size: int) -> Tensor:
        """`forward` for one token per row, in evaluation; tokens and places are [N,1]."""
        table = None if self.positions is None else self.positions.table(size)
        if table is None or self.training or self.weight.dtype == torch.float64:
            return self(tokens, places, size=size)  # type: ignore[no-any-return]
        return embed_at(tokens[:, 0], self.weight, positions=places[:, 0], table=table)[:, None]


class ProjectedVectors(nn.Module):
    """W x + b, plus a position vector if positions are added, with dropout; x are vectors of an encoder's `inputs`."""

    def __init__(self, config: TransformerConfig, *, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, config.width)
        self.positions = added_positions(config)
        self.dropout = config.dropout if config.embedding_dropout is None else config.embedding_dropout

    def forward(self, vectors: Tensor, places: Tensor, *, size: int | None) -> Tensor:
        """The projected vectors [B,S,D] of `vectors` [B,S,E] at positions `places` [B,S], all below `size` if given."""
        projected: Tensor = self.linear(vectors)
        if self.positions is not None:
            projected = projected + self.positions(places, size=size, like=projected)
        return dropout(projected, self.dropout, self.training)


def embed_chunk(
    tokens: Tensor, state: TransformerState, *, embedding: Embedding, rotary: Sinusoids | None
) -> tuple[Tensor, Chunk]:
    """The embedded tokens [N,T,D] that follow a prefix, and the positions and mask that their self-attention needs."""
    size = tokens.shape[1]
    past = state.past[0].keys.shape[2] if state.past else 0
    total = past + size if state.past else None
    if state.ancestors is not None:
        assert size == 1
        positions = state.position[:, None]
        inputs = embedding.next_vectors(tokens, positions, size=past)
        turn = None if rotary is None else rotary(positions, size=past, like=inputs)
        return inputs, Chunk(positions, None, turn, ancestors=state.ancestors)
    positions = state.position[:, None] + torch.arange(size, device=tokens.device)
    inputs = embedding(tokens, positions, size=total)
    mask = self_mask(state.position, past=past, size=size) if past and not _is_unmasked(state, past, size) else None
    turn = None if rotary is None else rotary(positions, size=total, like=inputs)
    return inputs, Chunk(positions, mask, turn, past)


def _is_unmasked(state: TransformerState, past: int, size: int) -> bool:
    """Whether one new token per row may attend to all `past` cached ones; False on a GPU, where the check is slow."""
    return size == 1 and state.position.device.type == "cpu" and bool((state.position == past).all())


def added_positions(config: TransformerConfig) -> Sinusoids | LearnedPositions | None:
    """The position encoding that is added to embeddings, if any."""
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
    """The final normalisation of a pre-norm stack; the identity for post-norm."""
    return build_norm(config.normalisation, width=config.width) if config.norm == "pre" else nn.Identity()


def self_mask(position: Tensor, *, past: int, size: int) -> Tensor:
    """The mask [N,1,T,P+T] of causal self-attention of T new tokens over P cached ones and themselves.

    It is true for the cached tokens of the same row, of which there are `position` [N], and for new tokens up to the
    query's own position.
    """
    positions = torch.arange(past + size, device=position.device)
    is_own_past = positions >= past - position[:, None]  # [N,P+T]
    is_causal = positions <= past + torch.arange(size, device=position.device)[:, None]  # [T,P+T]
    return (is_own_past[:, None] & is_causal)[:, None]


def initialise(module: nn.Module) -> None:
    """Initialises all linear layers: Xavier-uniform weights (keys and values as one matrix) and zero biases."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
