"""Encoder-decoder models: any encoder with any decoder, and an output layer.

Letters: B sentences, S source, T target, D width.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal, NamedTuple, assert_never

from pydantic import Field, model_validator
from torch import Tensor, nn

from calque.config import Config
from calque.errors import ConfigError
from calque.layers.adaptive import AdaptiveOutputConfig
from calque.layers.connections import Connection
from calque.layers.copying import mixture, mixture_loss
from calque.layers.embedding import known
from calque.layers.output import FullOutput, FullOutputConfig, OutputLayer, wide
from calque.layers.reinforce import MovingBaseline
from calque.models.bag_of_words import BagOfWordsEncoder, BagOfWordsEncoderConfig
from calque.models.bahdanau import BahdanauConfig, BahdanauDecoder
from calque.models.cho import ChoConfig, ChoDecoder
from calque.models.convolutional import (
    ConvolutionalDecoder,
    ConvolutionalDecoderConfig,
    ConvolutionalEncoder,
    ConvolutionalEncoderConfig,
)
from calque.models.gnmt import GnmtConfig, GnmtDecoder
from calque.models.interfaces import Decoder, Encoder, Inputs, Memory, MemoryShape, Output
from calque.models.luong import LuongConfig, LuongDecoder
from calque.models.outputs import OutputConfig, build_output
from calque.models.recurrent import (
    RecurrentDecoder,
    RecurrentDecoderConfig,
    RecurrentEncoder,
    RecurrentEncoderConfig,
)
from calque.models.transformer import (
    TransformerDecoder,
    TransformerDecoderConfig,
    TransformerEncoder,
    TransformerEncoderConfig,
)
from calque.tensors import Padded

EncoderConfig = Annotated[
    RecurrentEncoderConfig | ConvolutionalEncoderConfig | BagOfWordsEncoderConfig | TransformerEncoderConfig,
    Field(discriminator="kind"),
]
DecoderConfig = Annotated[
    RecurrentDecoderConfig
    | ChoConfig
    | BahdanauConfig
    | LuongConfig
    | GnmtConfig
    | ConvolutionalDecoderConfig
    | TransformerDecoderConfig,
    Field(discriminator="kind"),
]


class ModelConfig(Config):
    """An encoder, a decoder, an output layer, and which of the three word matrices are shared."""

    kind: Literal["encoder-decoder"] = "encoder-decoder"
    tie: Literal["none", "target", "embeddings", "all", "auto"] = "none"
    """Which word matrices are shared. none; target: output layer and target embedding; embeddings: both embeddings;
    all: all three. The last two need a joint vocabulary. auto: all with a joint vocabulary, target without one."""
    spread: float | None = Field(default=None, gt=0)
    """Initialise the weights of recurrent models, embeddings and output layer included, uniformly between ± this value
    (0.1 in Luong et al. 2015; narrower models need a larger one). By default, each layer has its own initialisation."""
    encoder: EncoderConfig = TransformerEncoderConfig()
    decoder: DecoderConfig = TransformerDecoderConfig()
    output: OutputConfig = FullOutputConfig()

    @model_validator(mode="after")
    def _compatible(self) -> "ModelConfig":
        if self.tie in ("target", "all") and isinstance(self.output, AdaptiveOutputConfig):
            raise ValueError(
                f"tie = {self.tie!r} and output.kind = 'adaptive' cannot be combined, as an adaptive output has "
                "narrower vectors for rare words; set model.tie = 'none'"
            )
        if self.spread is not None and not self.is_recurrent(self.encoder) and not self.is_recurrent(self.decoder):
            raise ValueError(
                f"spread = {self.spread} is for recurrent models: Transformers and convolutional models have their own "
                "initialisation; remove model.spread"
            )
        if self.copies and self.output.kind != "full":
            raise ValueError(
                f"decoder.copies and output.kind = {self.output.kind!r} cannot be combined, as copying needs the "
                "probabilities of all words in training too; set model.output.kind = 'full'"
            )
        return self

    def tie_with(self, *, joint: bool) -> str:
        """Which word matrices are shared: `tie`, with "auto" resolved for a `joint` vocabulary or for separate ones."""
        if self.tie != "auto":
            return self.tie
        if isinstance(self.output, AdaptiveOutputConfig):  # its weights cannot be shared
            return "embeddings" if joint else "none"
        return "all" if joint else "target"

    @property
    def copies(self) -> bool:
        """Whether the decoder can copy words of the source."""
        return bool(getattr(self.decoder, "copies", False))

    @staticmethod
    def is_recurrent(side: Config) -> bool:
        """Whether `spread`, the range of initial weights, applies to a config: not to Transformers and ConvS2S."""
        transformers = (TransformerEncoderConfig, TransformerDecoderConfig)
        return not isinstance(side, (*transformers, ConvolutionalEncoderConfig, ConvolutionalDecoderConfig))


class Sizes(NamedTuple):
    """The vocabulary sizes of both sides; `joint` is true if they share one vocabulary."""

    source: int
    target: int
    joint: bool


class Context(NamedTuple):
    """The values that the decoder needs from the encoded sources, computed once; one row per sentence."""

    decoder: Any
    tokens: Tensor | None  # [B,S] source ids, if the decoder copies


class DecoderModel(nn.Module):
    """A decoder with its output layer, which reads the memory of an encoder."""

    decoder: Decoder[Any, Any]
    output: OutputLayer
    baseline: MovingBaseline | None
    sizes: Sizes
    copies: bool

    def start(self, context: Context) -> Any:
        """The state before the first token; one row per sentence."""
        return self.decoder.start(context.decoder)

    def read(self, tokens: Tensor, state: Any, context: Context, *, attention: bool = False) -> tuple[Output, Any]:
        """The decoder's output for tokens [N,T], and the state after them."""
        output: Output
        output, state = self.decoder(tokens, state, context.decoder, attention=attention)
        return output, state

    def logits(self, hidden: Tensor) -> Tensor:
        """The logits […,V] of a full softmax, given hidden vectors […,D]; in at least float32."""
        assert isinstance(self.output, FullOutput)
        return wide(self.output.logits(hidden))

    def log_probs(self, output: Output, context: Context) -> Tensor:
        """The log-probabilities [N,T,V] of the next words, given the decoder's output.

        If the model copies, they are [N,T,V+S]; ids from V on are words of the source that are not in the vocabulary.
        """
        log_probs = self.output.log_probs(output.hidden)
        if context.tokens is None:
            return log_probs
        assert output.gate is not None and output.copied is not None
        return mixture(log_probs, gate=output.gate, attention=output.copied, tokens=context.tokens)

    def losses(self, output: Output, source: Tensor, targets: Tensor, *, smoothing: float, ignored: int) -> Tensor:
        """The cross-entropy [B,T] of targets [B,T], given source ids [B,S]; 0 where the target is `ignored`."""
        if self.copies:
            losses = mixture_loss(
                self.log_probs(output, Context(None, source)),
                targets,
                smoothing=smoothing,
                vocabulary=self.sizes.target,
            )
            return losses.masked_fill(targets == ignored, 0)
        hidden, flat = output.hidden.flatten(0, 1), known(targets, size=self.sizes.target).flatten()
        return self.output.loss(hidden, flat, smoothing=smoothing, ignored=ignored).view_as(targets)

    def total_loss(self, output: Output, source: Tensor, targets: Tensor, *, smoothing: float, ignored: int) -> Tensor:
        """The sum of `losses`; in training on a CPU, the output layer computes it with less work."""
        if self.copies:
            return self.losses(output, source, targets, smoothing=smoothing, ignored=ignored).sum()
        hidden, flat = output.hidden.flatten(0, 1), known(targets, size=self.sizes.target).flatten()
        return self.output.total_loss(hidden, flat, smoothing=smoothing, ignored=ignored)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """A context in which the model is in evaluation mode; its previous mode is restored afterwards."""
        was_training = self.training
        self.eval()
        try:
            yield
        finally:
            self.train(was_training)


class Model(DecoderModel):
    """An encoder-decoder with its output layer."""

    def __init__(self, config: ModelConfig, *, sizes: Sizes) -> None:
        super().__init__()
        self.encoder = build_encoder(config.encoder, vocabulary_size=sizes.source)
        self.decoder = build_decoder(config.decoder, vocabulary_size=sizes.target, memory=self.encoder.shape)
        self.output = build_output(config.output, vocabulary_size=sizes.target, width=self.decoder.width)
        self.baseline = None if self.decoder.draws is None else MovingBaseline()
        self.sizes = sizes
        self.copies = config.copies
        if self.copies and not sizes.joint:
            raise ConfigError("model.decoder.copies needs one vocabulary for both sides: set text.joint = true")
        tie = config.tie_with(joint=sizes.joint)
        if tie in ("target", "all"):
            self._tie(self.output, self.decoder.embedding, key=config.tie)
        if tie in ("embeddings", "all"):
            if not sizes.joint:
                raise ConfigError(
                    f"model.tie = {tie!r} needs one vocabulary for both sides: "
                    "set text.joint = true, or model.tie = 'target' or 'none'"
                )
            self._tie(self.encoder.embedding, self.decoder.embedding, key=config.tie)
        if config.spread is not None:
            if config.is_recurrent(config.encoder):
                initialise_uniformly(self.encoder, within=config.spread)
            if config.is_recurrent(config.decoder):
                initialise_uniformly(self.decoder, within=config.spread)
                initialise_uniformly(self.output, within=config.spread)

    def forward(self, source: Padded, target: Tensor, *, attention: bool = False) -> Output:
        """The decoder's output for target inputs [B,T], under teacher forcing."""
        context = self.prepare(source)
        output, _ = self.read(target, self.start(context), context, attention=attention)
        return output

    def encode(self, source: Padded) -> Memory:
        """The memory of a source: [B,S] ids, or other inputs that its encoder reads."""
        memory: Memory = self.encoder(source)
        return memory

    def prepare(self, source: Padded) -> Context:
        """Encodes a source, and computes the values that the decoder needs at every step."""
        return Context(self.decoder.prepare(self.encode(source)), source.values if self.copies else None)

    def _tie(self, layer: Any, embedding: Any, *, key: str) -> None:
        """Makes a layer share the weight of an embedding; raises a ConfigError if their shapes differ."""
        if layer.weight.shape != embedding.weight.shape:
            raise ConfigError(
                f"model.tie = {key!r}: matrices of shape {tuple(layer.weight.shape)} and "
                f"{tuple(embedding.weight.shape)} cannot be shared; make the embeddings as wide as the decoder's "
                "output, or set model.tie = 'none'"
            )
        layer.weight = embedding.weight


def initialise_uniformly(module: nn.Module, *, within: float) -> None:
    """Initialises parameters uniformly between ± `within`; layer norms and highway gates keep their initialisation."""
    if isinstance(module, nn.LayerNorm | Connection):
        return
    for parameter in module.parameters(recurse=False):
        if parameter.requires_grad:
            nn.init.uniform_(parameter, -within, within)
    for child in module.children():
        initialise_uniformly(child, within=within)


def build_encoder(config: EncoderConfig, *, vocabulary_size: int = 0, inputs: Inputs | None = None) -> Encoder:
    """The encoder that a config describes; it reads token ids or, if given, the vectors that `inputs` compute."""
    match config:
        case RecurrentEncoderConfig():
            return RecurrentEncoder(config, vocabulary_size=vocabulary_size, inputs=inputs)
        case ConvolutionalEncoderConfig():
            return ConvolutionalEncoder(config, vocabulary_size=vocabulary_size, inputs=inputs)
        case BagOfWordsEncoderConfig():
            return BagOfWordsEncoder(config, vocabulary_size=vocabulary_size, inputs=inputs)
        case TransformerEncoderConfig():
            return TransformerEncoder(config, vocabulary_size=vocabulary_size, inputs=inputs)
        case _:
            assert_never(config)


def build_decoder(config: DecoderConfig, *, vocabulary_size: int, memory: MemoryShape) -> Decoder[Any, Any]:
    """The decoder that a config describes, for encoders whose outputs have the shape `memory`."""
    try:
        match config:
            case RecurrentDecoderConfig():
                return RecurrentDecoder(config, vocabulary_size=vocabulary_size, memory=memory)
            case ChoConfig():
                return ChoDecoder(config, vocabulary_size=vocabulary_size, memory=memory)
            case LuongConfig():
                return LuongDecoder(config, vocabulary_size=vocabulary_size, memory=memory)
            case BahdanauConfig():
                return BahdanauDecoder(config, vocabulary_size=vocabulary_size, memory=memory)
            case GnmtConfig():
                return GnmtDecoder(config, vocabulary_size=vocabulary_size, memory=memory)
            case ConvolutionalDecoderConfig():
                return ConvolutionalDecoder(config, vocabulary_size=vocabulary_size, memory=memory)
            case TransformerDecoderConfig():
                return TransformerDecoder(config, vocabulary_size=vocabulary_size, memory=memory)
            case _:
                assert_never(config)
    except ValueError as error:
        raise ConfigError(f"model.decoder: {error}") from None
