"""Captioners: an encoder of images, any decoder, and an output layer.

Letters: B images, S positions of an encoded image, T target, D width.
"""

from typing import Annotated, Literal, assert_never

from pydantic import Field, model_validator
from torch import Tensor, nn

from calque.config import Config
from calque.layers.output import FullOutputConfig
from calque.layers.reinforce import MovingBaseline
from calque.models.bahdanau import BahdanauConfig
from calque.models.images import GridConfig, GridEncoder, ImageConfig, build_image_inputs
from calque.models.interfaces import Encoder
from calque.models.model import DecoderConfig, Model, Sizes, build_decoder, build_encoder
from calque.models.outputs import build_output
from calque.models.transformer import TransformerEncoderConfig


class NoEncoderConfig(Config):
    """No further encoder: the memory consists of the image's vectors."""

    kind: Literal["none"] = "none"


class CaptionerConfig(Config):
    """An encoder of images, a decoder of captions, and an output layer."""

    kind: Literal["captioner"] = "captioner"
    image: ImageConfig = GridConfig()
    """How an image becomes a grid of vectors: grid (convolutions) or patches."""
    encoder: Annotated[NoEncoderConfig | TransformerEncoderConfig, Field(discriminator="kind")] = NoEncoderConfig()
    """The encoder that reads these vectors: none or transformer."""
    decoder: DecoderConfig = BahdanauConfig(cell="lstm", bridge="tanh")
    doubly_stochastic: float = Field(default=0.0, ge=0)
    """λ: weight of the term Σₛ (1 − Σₜ αₜₛ)² of each caption, which encourages attention to every part of the image (Xu
    2015, eq. 14)."""
    tie: bool = False
    """Share one word matrix between the output layer and the decoder's embedding."""

    @model_validator(mode="after")
    def _compatible(self) -> "CaptionerConfig":
        if getattr(self.decoder, "copies", False):
            raise ValueError(
                "decoder.copies = true cannot be used with images, which have no words to copy; set it to false"
            )
        if self.doubly_stochastic and self.decoder.kind in ("recurrent", "cho"):
            raise ValueError(
                f"doubly_stochastic = {self.doubly_stochastic} and decoder.kind = {self.decoder.kind!r} cannot be "
                "combined, as that decoder has no attention; set model.doubly_stochastic = 0"
            )
        if self.doubly_stochastic and self.is_hard:
            raise ValueError(
                f"doubly_stochastic = {self.doubly_stochastic} and decoder.attention.choice = 'hard' cannot be "
                "combined: sampled positions have no gradient; set model.doubly_stochastic = 0"
            )
        return self

    @property
    def is_hard(self) -> bool:
        """Whether the decoder's attention is hard, so that it samples positions."""
        return getattr(getattr(self.decoder, "attention", None), "choice", "soft") == "hard"

    def positions(self, size: int) -> int:
        """The number of positions S of an encoded image whose height and width are `size` pixels."""
        return self.side(size) ** 2

    def side(self, size: int) -> int:
        """The number of rows, and of columns, in the grid of an image whose height and width are `size` pixels."""
        return size // self.image.stride


class CaptionerModel(Model):
    """An encoder-decoder whose sources are images: uint8 pixels [B,H,H,3], as the values of `Padded`."""

    def __init__(self, config: CaptionerConfig, *, vocabulary_size: int) -> None:
        nn.Module.__init__(self)
        self.encoder = build_image_encoder(config)
        self.decoder = build_decoder(config.decoder, vocabulary_size=vocabulary_size, memory=self.encoder.shape)
        self.output = build_output(FullOutputConfig(), vocabulary_size=vocabulary_size, width=self.decoder.width)
        self.baseline = None if self.decoder.draws is None else MovingBaseline()
        self.sizes = Sizes(0, vocabulary_size, joint=False)
        self.copies = False
        self.doubly_stochastic = config.doubly_stochastic
        if config.tie:
            self._tie(self.output, self.decoder.embedding, key="true")


def build_image_encoder(config: CaptionerConfig) -> Encoder:
    """The image encoder that a config describes."""
    inputs = build_image_inputs(config.image)
    match config.encoder:
        case NoEncoderConfig():
            return GridEncoder(inputs)
        case TransformerEncoderConfig():
            return build_encoder(config.encoder, inputs=inputs)
        case _:
            assert_never(config.encoder)


def doubly_stochastic_term(attention: Tensor, counts: Tensor) -> Tensor:
    """Σ over images and positions of (1 − Σₜ αₜₛ)², given attention [B,T,S]; `counts` [B,T] is false for padding.

    Padding rows, which have no caption, add nothing.
    """
    received = (attention * counts[..., None]).sum(dim=1)  # [B,S]
    return ((1 - received) ** 2 * counts.any(dim=1)[:, None]).sum()
