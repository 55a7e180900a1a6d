"""Language models P(x) = Π P(xₜ | x₁…xₜ₋₁): recurrent networks, Transformers and n-gram models.

Mikolov et al. 2010 (recurrent); Zaremba et al. 2014 (dropout between layers); Merity et al. 2018 (AWD-LSTM); Vaswani
et al. 2017, with self-attention alone. For n-gram models see the module `ngram`.

Letters: N rows, T tokens, P past, E embedding, D width, L layers, V vocabulary.
"""

from typing import Annotated, Any, Literal, NamedTuple, Self, assert_never

import torch
from pydantic import Field, ValidationInfo, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config, refuse_unused
from calque.layers.adaptive import AdaptiveOutputConfig
from calque.layers.bounds import Layers, Width
from calque.layers.dropout import dropout
from calque.layers.multihead import Chunk
from calque.layers.observers import StateLayer
from calque.layers.output import FullOutputConfig, OutputLayer
from calque.layers.positions import Sinusoids
from calque.layers.recurrent import CellName, Recurrence, State, state_parts
from calque.layers.regularisation import activation_penalty, temporal_activation_penalty
from calque.layers.stack import WeightMasks, dropout_mask, stack_layers
from calque.layers.transformer import BlockShape, MixerName, Residual, build_mixer, feed_forward
from calque.models.ngram import NgramLanguageConfig, NgramNetwork, NgramOutput
from calque.models.outputs import OutputConfig, build_output
from calque.models.recurrent import WordEmbedding
from calque.models.transformer import (
    CausalTransformerConfig,
    Embedding,
    TransformerState,
    embed_chunk,
    initialise,
    last_norm,
)

Probability = Annotated[float, Field(ge=0, lt=1)]


class RecurrentLanguageConfig(Config):
    """A stack of recurrent layers."""

    kind: Literal["recurrent"] = "recurrent"
    cell: CellName = "lstm"
    """rnn (tanh), rnn-relu, lstm, gru (cuDNN's form) or gru-original (Cho 2014: reset before the product)."""
    layers: Layers = 2
    """Number of recurrent layers."""
    width: Width = 256
    """Width of the recurrent layers."""
    top_width: Width | None = None
    """Width of the top layer; by default, that of the other layers."""
    embedding: Width = 256
    """Width of the word vectors and of the output layer; a linear layer follows a top layer of another width."""
    dropout: Probability = 0.2
    """Dropout between layers."""
    input_dropout: Probability | None = None
    """Dropout on the word vectors; by default, the same as dropout."""
    output_dropout: Probability | None = None
    """Dropout on the top layer's outputs; by default, the same as dropout."""
    variational: bool = False
    """Use the same dropout mask at all positions of a batch (Gal 2016; Merity 2018, §4.2)."""
    weight_dropout: Probability = 0.0
    """Dropout on the recurrent weights, with one mask for all positions (DropConnect: Merity 2018, §2)."""
    type_dropout: Probability = 0.0
    """Dropout of whole words: all occurrences of a word in a batch (Merity 2018, §4.3)."""
    activation_penalty: float = Field(default=0.0, ge=0)
    """α: weight of the L2 penalty on the top layer's outputs after dropout (Merity 2017)."""
    temporal_penalty: float = Field(default=0.0, ge=0)
    """β: weight of the L2 penalty on the change of the top layer's outputs from token to token (Merity 2017)."""


class TransformerLanguageConfig(CausalTransformerConfig):
    """A stack of causal self-attention and feed-forward blocks."""


NetworkConfig = Annotated[
    RecurrentLanguageConfig | TransformerLanguageConfig | NgramLanguageConfig, Field(discriminator="kind")
]


class LanguageModelConfig(Config):
    """A network that reads tokens left to right, and an output layer over the vocabulary."""

    kind: Literal["language-model"] = "language-model"
    tie: bool = True
    """Share the weights of the embedding and the output layer (Press and Wolf 2017)."""
    spread: float | None = Field(default=None, gt=0)
    """Initialise the weights of a recurrent model uniformly between ± this value (Zaremba 2014: 0.04 to 0.1). By
    default, each layer has its own initialisation."""
    network: NetworkConfig = TransformerLanguageConfig(layers=4, width=256, heads=4, feed_forward=1024)
    output: OutputConfig = FullOutputConfig()

    @model_validator(mode="after")
    def _fitting(self, info: ValidationInfo) -> Self:
        if self.tie and isinstance(self.output, AdaptiveOutputConfig):
            raise ValueError(
                "tie and output.kind = 'adaptive' cannot be combined, as an adaptive output has narrower vectors for "
                "rare words; "
                "set model.tie = false"
            )
        is_recurrent = isinstance(self.network, RecurrentLanguageConfig)
        if isinstance(self.network, NgramLanguageConfig) and self.output != FullOutputConfig():
            raise ValueError(
                f"output.kind = {self.output.kind!r} has no effect with network.kind = 'ngram', which uses tables of "
                "counts; leave it out"
            )
        refuse_unused(self, {"spread": (is_recurrent, "network.kind = 'recurrent'")}, info)
        return self


class Read(NamedTuple):
    """The output of a language model's network for T tokens."""

    hidden: Tensor  # [N,T,E], the input of the output layer; of an n-gram model, histories of ids [N,T,H]
    penalties: Tensor | None = None  # [N,T], in training: weighted penalties to add to each token's loss


class RecurrentLanguageState(NamedTuple):
    """The state of a recurrent language model."""

    parts: State  # (h,) or (h, c), each [N,L,D]; states narrower than the widest are padded with zeros
    last: Tensor  # [N,D], the top layer's last output, before dropout
    masks: tuple[Tensor, ...] | None = None  # [N,·], with variational dropout: of each layer's inputs and of the output
    weight_masks: WeightMasks | None = None  # in training with dropout of recurrent weights


class RecurrentNetwork(nn.Module):
    """A recurrent language model without its output layer.   Law: reading x and then y equals reading x + y."""

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
        return self._with_masks(RecurrentLanguageState(parts, like.new_zeros(rows, self.widths[-1])))

    def _with_masks(self, state: RecurrentLanguageState) -> RecurrentLanguageState:
        """The state with newly sampled dropout masks; in evaluation mode, with none."""
        masks, weight_masks = None, None
        if self.training and self.config.variational:
            widths = [self.config.embedding, *self.widths]
            masks = tuple(
                dropout_mask(state.last, width=width, dropout=dropout)
                for width, dropout in zip(widths, self._dropouts, strict=True)
            )
        if self.training and self.config.weight_dropout:
            weight_masks = WeightMasks(
                tuple(layer.weight_mask(dropout=self.config.weight_dropout) for layer in self._layers())
            )
        return state._replace(masks=masks, weight_masks=weight_masks)

    def forward(self, tokens: Tensor, state: RecurrentLanguageState) -> tuple[Read, RecurrentLanguageState]:
        """The outputs for tokens [N,T], and the state after them."""
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
        return read, state._replace(parts=stack_layers(after), last=values[:, -1])

    def _drop(self, values: Tensor, number: int, state: RecurrentLanguageState) -> Tensor:
        if state.masks is not None:
            return values * state.masks[number][:, None]
        return dropout(values, self._dropouts[number], self.training)

    def _penalties(self, outputs: Tensor, dropped: Tensor, *, before: Tensor) -> Tensor | None:
        """Each token's activation regularisation [N,T] (Merity 2017); None in evaluation or if both weights are 0."""
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


class CausalBlock(StateLayer):
    """A block of a Transformer language model: causal self-attention (or another mixer), then feed-forward."""

    def __init__(self, shape: BlockShape, *, mixer: MixerName) -> None:
        super().__init__()
        self.self_attention = build_mixer(mixer, shape)
        self.feed_forward = feed_forward(shape)
        self.around_self = Residual(shape)
        self.around_feed_forward = Residual(shape)

    def forward(self, stream: Tensor, past: Any, chunk: Chunk) -> tuple[Tensor, Any]:
        """The residual stream [N,T,D] after the block, and the cache `past` extended by these T tokens."""
        mixed, after = self.self_attention.read(self.around_self.enter(stream), past, chunk)
        stream = self.around_self.leave(stream, mixed)
        fed = self.feed_forward(self.around_feed_forward.enter(stream))
        return self.observed_states(self.around_feed_forward.leave(stream, fed)), after


class TransformerNetwork(nn.Module):
    """A Transformer language model without its output layer.   Law: reading x and then y equals reading x + y."""

    def __init__(self, config: TransformerLanguageConfig, *, vocabulary_size: int) -> None:
        super().__init__()
        self.embedding = Embedding(config, vocabulary_size=vocabulary_size)
        self.rotary = Sinusoids(config.head_width) if config.positions == "rotary" else None
        self.blocks = nn.ModuleList(CausalBlock(config.shape, mixer=config.mixer) for _ in range(config.layers))
        self.norm = last_norm(config)
        self.width = config.width
        initialise(self)

    def start(self, rows: int) -> TransformerState:
        """The state before any token."""
        like = self.embedding.weight
        position = torch.zeros(rows, dtype=torch.long, device=like.device)
        layers = [block.self_attention.start(rows, like=like) for block in self._blocks()]
        return TransformerState.of_layers(layers, position)

    def forward(self, tokens: Tensor, state: TransformerState) -> tuple[Read, TransformerState]:
        """The outputs for tokens [N,T], and the state after them."""
        stream, chunk = embed_chunk(tokens, state, embedding=self.embedding, rotary=self.rotary)
        after = []
        for block, before in zip(self._blocks(), state.layers, strict=True):
            stream, layer = block(stream, before, chunk)
            after.append(layer)
        return Read(self.norm(stream)), TransformerState.of_layers(after, state.position + tokens.shape[1])

    def _blocks(self) -> list[CausalBlock]:
        return [block for block in self.blocks if isinstance(block, CausalBlock)]


class LanguageModel(nn.Module):
    """A language model: a recurrent or Transformer network with its output layer, or n-gram tables."""

    def __init__(self, config: LanguageModelConfig, *, vocabulary_size: int) -> None:
        super().__init__()
        self.network = build_network(config.network, vocabulary_size=vocabulary_size)
        self.vocabulary_size = vocabulary_size
        self.output: OutputLayer
        if isinstance(self.network, NgramNetwork):
            self.output = NgramOutput(order=1 + self.network.width, vocabulary_size=vocabulary_size)
            return
        self.output = build_output(config.output, vocabulary_size=vocabulary_size, width=self.network.width)
        if config.spread is not None:
            for parameter in self.parameters():
                nn.init.uniform_(parameter, -config.spread, config.spread)
        if config.tie:
            weight = self.network.embedding.weight
            own: Any = self.output
            assert own.weight.shape == weight.shape  # networks end in the width of their embeddings
            own.weight = weight

    @property
    def carries(self) -> bool:
        """Whether the state is carried from one batch of running text to the next: False for Transformers."""
        return not isinstance(self.network, TransformerNetwork)

    def start(self, rows: int) -> Any:
        """The state before any token."""
        return self.network.start(rows)

    def read(self, tokens: Tensor, state: Any) -> tuple[Read, Any]:
        """The network's outputs for tokens [N,T], and the state after them."""
        if isinstance(self.network, NgramNetwork):
            histories, state = self.network(tokens, state)
            return Read(histories), state
        read: Read
        read, state = self.network(tokens, state)
        return read, state

    def forward(self, tokens: Tensor, state: Any) -> tuple[Read, Any]:
        """The same as `read`."""
        return self.read(tokens, state)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """The log-probabilities [...,V] of the next word, given hidden [...,E]; normalised in at least float32."""
        return self.output.log_probs(hidden)

    def losses(self, hidden: Tensor, targets: Tensor, *, smoothing: float = 0.0, ignored: int = -100) -> Tensor:
        """The cross-entropy [M] of targets [M], given hidden [M,E]; 0 where the target is `ignored`."""
        return self.output.loss(hidden, targets, smoothing=smoothing, ignored=ignored)

    def total_loss(self, hidden: Tensor, targets: Tensor, *, smoothing: float = 0.0, ignored: int = -100) -> Tensor:
        """The sum of `losses`; in training on a CPU, the output layer computes it with less work."""
        return self.output.total_loss(hidden, targets, smoothing=smoothing, ignored=ignored)


def build_network(
    config: NetworkConfig, *, vocabulary_size: int
) -> RecurrentNetwork | TransformerNetwork | NgramNetwork:
    """The network a config describes."""
    match config:
        case RecurrentLanguageConfig():
            return RecurrentNetwork(config, vocabulary_size=vocabulary_size)
        case TransformerLanguageConfig():
            return TransformerNetwork(config, vocabulary_size=vocabulary_size)
        case NgramLanguageConfig():
            return NgramNetwork(config, vocabulary_size=vocabulary_size)
        case _:
            assert_never(config)
