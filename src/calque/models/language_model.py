"""Language models: P(x) = Π P(xₜ | x₁…xₜ₋₁), recurrent or a Transformer, without any source.

Mikolov et al. 2010 (recurrent); Zaremba et al. 2014 (dropout between layers); Merity et al. 2018 (AWD-LSTM); Vaswani
et al. 2017, with self-attention alone.

Letters: N rows, T tokens, P past, E embedding, D width, L layers, V vocabulary.
"""

from typing import Annotated, Any, Literal, NamedTuple, Self, assert_never

import torch
from pydantic import Field, ValidationInfo, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config, refuse_unused
from calque.errors import ConfigError
from calque.layers.adaptive import AdaptiveOutputConfig
from calque.layers.bounds import Layers, Width
from calque.layers.multihead import Chunk, KeysValues
from calque.layers.output import FullOutputConfig, OutputLayer
from calque.layers.positions import Sinusoids
from calque.layers.recurrent import CellName, Recurrence, State, state_parts
from calque.layers.regularisation import activation_penalty, temporal_activation_penalty
from calque.layers.stack import WeightMasks, kept, together
from calque.layers.transformer import BlockShape, MixerName, Residual, build_mixer, feed_forward
from calque.models.outputs import OutputConfig, build_output
from calque.models.recurrent import WordEmbedding
from calque.models.transformer import Embedding, TransformerConfig, initialise, last_norm, self_mask

Probability = Annotated[float, Field(ge=0, lt=1)]


class RecurrentLanguageConfig(Config):
    """A stack of recurrent layers."""

    kind: Literal["recurrent"] = "recurrent"
    cell: CellName = "lstm"
    """rnn (tanh), rnn-relu, lstm, gru (cuDNN's form) or gru-original (Cho 2014: reset before the product)."""
    layers: Layers = 2
    """How many recurrent layers."""
    width: Width = 256
    """Width of the recurrent layers."""
    top_width: Width | None = None
    """Width of the top layer. Left out: as width."""
    embedding: Width = 256
    """Width of the word vectors, and of the output layer; where the top layer has another, a linear layer leads to
    it."""
    dropout: Probability = 0.2
    """Between layers."""
    input_dropout: Probability | None = None
    """On the word vectors. Left out: as dropout."""
    output_dropout: Probability | None = None
    """On what the top layer gives out. Left out: as dropout."""
    variational: bool = False
    """One mask of dropout for all positions of a batch (Gal 2016; Merity 2018, §4.2), not one for each."""
    weight_dropout: Probability = 0.0
    """On the recurrent weights, one mask for all positions (DropConnect: Merity 2018, §2)."""
    type_dropout: Probability = 0.0
    """Whole words: all their occurrences in a batch (Merity 2018, §4.3)."""
    activation_penalty: float = Field(default=0.0, ge=0)
    """α: how much the square of what the top layer gives out, after dropout, counts beside the loss (Merity 2017)."""
    temporal_penalty: float = Field(default=0.0, ge=0)
    """β: how much the square of its change from token to token counts (Merity 2017)."""


class TransformerLanguageConfig(TransformerConfig):
    """A stack of causal self-attention and feed-forward blocks."""

    mixer: MixerName = "attention"
    """What mixes a token with those before it: attention (the paper), ssru (Kim 2019) or average (Zhang 2018)."""

    @model_validator(mode="after")
    def _positions_are_used(self) -> Self:
        if self.mixer != "attention" and self.positions in ("rotary", "relative"):
            raise ValueError(
                f"positions {self.positions!r} are part of self-attention, which mixer {self.mixer!r} replaces; "
                "use positions = 'sinusoidal' or 'learned'"
            )
        return self


NetworkConfig = Annotated[RecurrentLanguageConfig | TransformerLanguageConfig, Field(discriminator="kind")]


class LanguageModelConfig(Config):
    """A network that reads tokens left to right, and an output layer over the vocabulary."""

    kind: Literal["language-model"] = "language-model"
    tie: bool = True
    """Whether the output layer and the embedding have the same weights (Press and Wolf 2017)."""
    spread: float | None = Field(default=None, gt=0)
    """Weights of a recurrent model begin uniformly between ± this (Zaremba 2014: 0.04 to 0.1). Each layer's own way
    unless set."""
    network: NetworkConfig = TransformerLanguageConfig(layers=4, width=256, heads=4, feed_forward=1024)
    output: OutputConfig = FullOutputConfig()

    @model_validator(mode="after")
    def _fitting(self, info: ValidationInfo) -> Self:
        if self.tie and isinstance(self.output, AdaptiveOutputConfig):
            raise ValueError(
                "tie and output.kind = 'adaptive' do not go together, as rare words have narrower vectors there; "
                "set model.tie = false"
            )
        is_recurrent = isinstance(self.network, RecurrentLanguageConfig)
        refuse_unused(self, {"spread": (is_recurrent, "network.kind = 'recurrent'")}, info)
        return self


class Read(NamedTuple):
    """What reading T tokens gives."""

    hidden: Tensor  # [N,T,E], what the output layer projects
    penalties: Tensor | None = None  # [N,T], weighted, in training: what is added to a token's loss


class RecurrentLanguageState(NamedTuple):
    """What a recurrent language model remembers."""

    parts: State  # (h,) or (h, c), each [N,L,D], D the widest layer's: behind a narrower one's state are zeros
    last: Tensor  # [N,D], what the top layer gave out last, before dropout
    masks: tuple[Tensor, ...] | None = None  # in training with variational dropout: of inputs, layers, output; [N,·]
    weight_masks: WeightMasks | None = None  # in training with dropout of recurrent weights


class RecurrentNetwork(nn.Module):
    """Layers of one direction.   Law: reading x and then y equals reading x + y."""

    def __init__(self, config: RecurrentLanguageConfig, *, vocabulary_size: int) -> None:
        super().__init__()
        self.embedding = WordEmbedding(
            vocabulary_size, width=config.embedding, dropout=0.0, type_dropout=config.type_dropout
        )
        self.widths = [config.width] * (config.layers - 1) + [config.top_width or config.width]
        inputs = [config.embedding, *self.widths[:-1]]
        self.layers = nn.ModuleList(
            Recurrence(config.cell, input_width=width, width=own)
            for width, own in zip(inputs, self.widths, strict=True)
        )
        top = self.widths[-1]
        self.readout = None if top == config.embedding else nn.Linear(top, config.embedding)
        self.config = config
        self.width = config.embedding
        self._dropouts = [
            config.dropout if config.input_dropout is None else config.input_dropout,
            *[config.dropout] * (config.layers - 1),
            config.dropout if config.output_dropout is None else config.output_dropout,
        ]

    def start(self, rows: int) -> RecurrentLanguageState:
        """The state before any token."""
        config, like = self.config, self.embedding.weight
        zero = like.new_zeros(rows, config.layers, max(self.widths))
        parts = (zero,) * state_parts(config.cell)
        return self.drawn(RecurrentLanguageState(parts, like.new_zeros(rows, self.widths[-1])))

    def drawn(self, state: RecurrentLanguageState) -> RecurrentLanguageState:
        """The same state with new masks of dropout: a pass over a batch begins here."""
        masks, weight_masks = None, None
        if self.training and self.config.variational:
            widths = [self.config.embedding, *self.widths]
            masks = tuple(
                kept(state.last, width=width, dropout=dropout)
                for width, dropout in zip(widths, self._dropouts, strict=True)
            )
        if self.training and self.config.weight_dropout:
            weight_masks = WeightMasks(
                tuple(layer.weight_mask(dropout=self.config.weight_dropout) for layer in self._layers())
            )
        return state._replace(masks=masks, weight_masks=weight_masks)

    def forward(self, tokens: Tensor, state: RecurrentLanguageState) -> tuple[Read, RecurrentLanguageState]:
        """Reads [N,T] tokens."""
        values = self.embedding(tokens)
        after = []
        for number, layer in enumerate(self._layers()):
            weight = None if state.weight_masks is None else layer.dropped(state.weight_masks.layers[number])
            before = tuple(part[:, number, : layer.width].contiguous() for part in state.parts)
            values, final = layer(self._drop(values, number, state), before, weight=weight)
            after.append(tuple(F.pad(part, (0, max(self.widths) - layer.width)) for part in final))
        dropped = self._drop(values, self.config.layers, state)
        hidden = dropped if self.readout is None else self.readout(dropped)
        read = Read(hidden, self._penalties(values, dropped, before=state.last))
        return read, state._replace(parts=together(after), last=values[:, -1])

    def _drop(self, values: Tensor, number: int, state: RecurrentLanguageState) -> Tensor:
        if state.masks is not None:
            return values * state.masks[number][:, None]
        return F.dropout(values, self._dropouts[number], self.training)

    def _penalties(self, outputs: Tensor, dropped: Tensor, *, before: Tensor) -> Tensor | None:
        """[N,T], activation regularisation (Merity 2017), in training."""
        activation, temporal = self.config.activation_penalty, self.config.temporal_penalty
        if not self.training or not (activation or temporal):
            return None
        penalties = outputs.new_zeros(outputs.shape[:2])
        if activation:
            penalties = penalties + activation * activation_penalty(dropped)
        if temporal:
            penalties = penalties + temporal * temporal_activation_penalty(outputs, before=before)
        return penalties

    def _layers(self) -> list[Recurrence]:
        return [layer for layer in self.layers if isinstance(layer, Recurrence)]


class TransformerLanguageState(NamedTuple):
    """What was read: row n's tokens are the last `position[n]` of P kept ones."""

    past: tuple[KeysValues, ...]  # per layer, [N,G,P,d]; empty where the mixer is no attention
    position: Tensor  # [N]
    carried: Tensor | None = None  # [N,L,D]: the cells of SSRU, the sums of average attention


class CausalBlock(nn.Module):
    """Causal self-attention over the past and the chunk, then feed-forward."""

    def __init__(self, shape: BlockShape, *, mixer: MixerName) -> None:
        super().__init__()
        self.self_attention = build_mixer(mixer, shape)
        self.feed_forward = feed_forward(shape)
        self.around_self = Residual(shape)
        self.around_feed_forward = Residual(shape)

    def forward(self, stream: Tensor, past: Any, chunk: Chunk) -> tuple[Tensor, Any]:
        """The stream [N,T,D] after the block, and the past with this chunk."""
        mixed, after = self.self_attention.read(self.around_self.enter(stream), past, chunk)
        stream = self.around_self.leave(stream, mixed)
        fed = self.feed_forward(self.around_feed_forward.enter(stream))
        return self.around_feed_forward.leave(stream, fed), after


class TransformerNetwork(nn.Module):
    """Causal blocks.   Law: reading x and then y equals reading x + y."""

    def __init__(self, config: TransformerLanguageConfig, *, vocabulary_size: int) -> None:
        super().__init__()
        self.embedding = Embedding(config, vocabulary_size=vocabulary_size)
        self.rotary = Sinusoids(config.head_width) if config.positions == "rotary" else None
        self.blocks = nn.ModuleList(CausalBlock(config.shape, mixer=config.mixer) for _ in range(config.layers))
        self.norm = last_norm(config)
        self.keeps_all = config.mixer == "attention"
        self.width = config.width
        initialise(self)

    def start(self, rows: int) -> TransformerLanguageState:
        """The state before any token."""
        like = self.embedding.weight
        position = torch.zeros(rows, dtype=torch.long, device=like.device)
        return self._state([block.self_attention.start(rows, like=like) for block in self._blocks()], position)

    def drawn(self, state: TransformerLanguageState) -> TransformerLanguageState:
        """The same state: nothing is dropped alike at all positions."""
        return state

    def forward(self, tokens: Tensor, state: TransformerLanguageState) -> tuple[Read, TransformerLanguageState]:
        """Reads [N,T] tokens."""
        size = tokens.shape[1]
        past = state.past[0].keys.shape[2] if state.past else 0
        room = past + size if state.past else None
        places = state.position[:, None] + torch.arange(size, device=tokens.device)
        stream = self.embedding(tokens, places, size=room)
        mask = self_mask(state.position, past=past, size=size) if past else None
        chunk = Chunk(places, mask, None if self.rotary is None else self.rotary(places, size=room, like=stream))
        before = state.past if state.carried is None else state.carried.unbind(1)
        after = []
        for number, block in enumerate(self._blocks()):
            stream, layer = block(stream, before[number], chunk)
            after.append(layer)
        return Read(self.norm(stream)), self._state(after, state.position + size)

    def _state(self, layers: list[Any], position: Tensor) -> TransformerLanguageState:
        if self.keeps_all:
            return TransformerLanguageState(tuple(layers), position)
        return TransformerLanguageState((), position, torch.stack(layers, dim=1))

    def _blocks(self) -> list[CausalBlock]:
        return [block for block in self.blocks if isinstance(block, CausalBlock)]


class LanguageModel(nn.Module):
    """A network with its output layer."""

    def __init__(self, config: LanguageModelConfig, *, vocabulary_size: int) -> None:
        super().__init__()
        self.network = build_network(config.network, vocabulary_size=vocabulary_size)
        self.output: OutputLayer = build_output(
            config.output, vocabulary_size=vocabulary_size, width=self.network.width
        )
        self.vocabulary_size = vocabulary_size
        if config.spread is not None:
            for parameter in self.parameters():
                nn.init.uniform_(parameter, -config.spread, config.spread)
        if config.tie:
            weight = self.network.embedding.weight
            own: Any = self.output
            if own.weight.shape != weight.shape:
                raise ConfigError(
                    f"model.tie: matrices of {tuple(own.weight.shape)} and {tuple(weight.shape)} cannot be one; "
                    "set model.tie = false"
                )
            own.weight = weight

    @property
    def carries(self) -> bool:
        """Whether its state, however long the text, has a fixed size: then running text can hand it on."""
        return isinstance(self.network, RecurrentNetwork)

    def start(self, rows: int) -> Any:
        """The state before any token."""
        return self.network.start(rows)

    def read(self, tokens: Tensor, state: Any) -> tuple[Read, Any]:
        """What the network makes of tokens [N,T], and the state after them."""
        read: Read
        read, state = self.network(tokens, state)
        return read, state

    def forward(self, tokens: Tensor, state: Any) -> tuple[Read, Any]:
        """`read`."""
        return self.read(tokens, state)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """[...,V] of hidden [...,E], normalised in float32 at least."""
        return self.output.log_probs(hidden)

    def losses(self, hidden: Tensor, targets: Tensor, *, smoothing: float = 0.0, ignored: int = -100) -> Tensor:
        """[M], the cross-entropy of targets [M] under hidden [M,E]; 0 where the target is `ignored`."""
        return self.output.loss(hidden, targets, smoothing=smoothing, ignored=ignored)


def build_network(config: NetworkConfig, *, vocabulary_size: int) -> RecurrentNetwork | TransformerNetwork:
    """The network a config describes."""
    match config:
        case RecurrentLanguageConfig():
            return RecurrentNetwork(config, vocabulary_size=vocabulary_size)
        case TransformerLanguageConfig():
            return TransformerNetwork(config, vocabulary_size=vocabulary_size)
        case _:
            assert_never(config)
