"""A whole model: any encoder with any decoder, and the output layer.

Letters: B sentences, S source, T target, D width.
"""

from typing import Annotated, Any, Literal, NamedTuple, assert_never

from pydantic import Field
from torch import Tensor, nn

from calque.config import Config
from calque.errors import ConfigError
from calque.layers.output import OutputLayer
from calque.models.bahdanau import BahdanauConfig, BahdanauDecoder
from calque.models.luong import LuongConfig, LuongDecoder
from calque.models.recurrent import (
    RecurrentDecoder,
    RecurrentDecoderConfig,
    RecurrentEncoder,
    RecurrentEncoderConfig,
)
from calque.models.seam import Decoder, Encoder, Memory, MemoryShape, Output
from calque.models.transformer import (
    TransformerDecoder,
    TransformerDecoderConfig,
    TransformerEncoder,
    TransformerEncoderConfig,
)
from calque.tensors import Padded

EncoderConfig = Annotated[RecurrentEncoderConfig | TransformerEncoderConfig, Field(discriminator="kind")]
DecoderConfig = Annotated[
    RecurrentDecoderConfig | LuongConfig | BahdanauConfig | TransformerDecoderConfig, Field(discriminator="kind")
]


class ModelConfig(Config):
    """An encoder, a decoder, and which of the three word matrices are one."""

    tie: Literal["none", "target", "all"] = "none"
    """target: the output layer is the target embedding; all: the source embedding too (needs a joint vocabulary)."""
    encoder: EncoderConfig = TransformerEncoderConfig()
    decoder: DecoderConfig = TransformerDecoderConfig()


class Sizes(NamedTuple):
    """How many pieces each side has; `joint` when they are the same pieces."""

    source: int
    target: int
    joint: bool


class Model(nn.Module):
    """An encoder-decoder with its output layer."""

    def __init__(self, config: ModelConfig, *, sizes: Sizes) -> None:
        super().__init__()
        self.encoder = build_encoder(config.encoder, vocabulary_size=sizes.source)
        self.decoder = build_decoder(config.decoder, vocabulary_size=sizes.target, memory=self.encoder.shape)
        self.output = OutputLayer(sizes.target, width=self.decoder.width)
        if config.tie != "none":
            self._tie(self.output, self.decoder.embedding, key="target")
        if config.tie == "all":
            if not sizes.joint:
                raise ConfigError("model.tie = 'all' needs one vocabulary for both sides: set text.joint = true")
            self._tie(self.encoder.embedding, self.decoder.embedding, key="all")

    def forward(self, source: Padded, target: Tensor) -> Output:
        """The hidden vectors [B,T,D] of target inputs [B,T], every token given (teacher forcing)."""
        context = self.decoder.prepare(self.encode(source))
        output: Output
        output, _ = self.decoder(target, self.decoder.start(context), context)
        return output

    def encode(self, source: Padded) -> Memory:
        """The memory of [B,S] source ids."""
        memory: Memory = self.encoder(source)
        return memory

    def _tie(self, one: Any, other: Any, *, key: str) -> None:
        if one.weight.shape != other.weight.shape:
            raise ConfigError(
                f"model.tie = {key!r}: matrices of {tuple(one.weight.shape)} and {tuple(other.weight.shape)} "
                "cannot be one; make the embeddings as wide as the decoder's output, or set model.tie = 'none'"
            )
        one.weight = other.weight


def build_encoder(config: EncoderConfig, *, vocabulary_size: int) -> Encoder:
    """The encoder a config describes."""
    match config:
        case RecurrentEncoderConfig():
            return RecurrentEncoder(config, vocabulary_size=vocabulary_size)
        case TransformerEncoderConfig():
            return TransformerEncoder(config, vocabulary_size=vocabulary_size)
        case _:
            assert_never(config)


def build_decoder(config: DecoderConfig, *, vocabulary_size: int, memory: MemoryShape) -> Decoder[Any, Any]:
    """The decoder a config describes, fit for the memory it will read."""
    try:
        match config:
            case RecurrentDecoderConfig():
                return RecurrentDecoder(config, vocabulary_size=vocabulary_size, memory=memory)
            case LuongConfig():
                return LuongDecoder(config, vocabulary_size=vocabulary_size, memory=memory)
            case BahdanauConfig():
                return BahdanauDecoder(config, vocabulary_size=vocabulary_size, memory=memory)
            case TransformerDecoderConfig():
                return TransformerDecoder(config, vocabulary_size=vocabulary_size, memory=memory)
            case _:
                assert_never(config)
    except ValueError as error:
        raise ConfigError(f"model.decoder: {error}") from None
