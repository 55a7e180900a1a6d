"""Sentence encoders: one vector per sentence, such that the two sentences of a pair have similar vectors.

They are trained with a contrastive loss over the batch (Guo et al. 2018; Yang et al. 2019), with one encoder for each
side of the pairs or one for both.

Letters: B sentences, S positions, D width of an encoder, W width of the vectors.
"""

from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config
from calque.errors import ConfigError
from calque.layers.bounds import Width
from calque.layers.dropout import dropout
from calque.layers.output import wide
from calque.layers.pooling import AttentionPooling, PoolingName, pool_states
from calque.models.bag_of_words import BagOfWordsEncoder
from calque.models.interfaces import Encoder, Memory
from calque.models.model import EncoderConfig, Sizes, build_encoder
from calque.models.recurrent import RecurrentEncoder
from calque.models.transformer import TransformerEncoderConfig
from calque.tensors import Padded

Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = ("source", "target")


class SentenceEncoderConfig(Config):
    """An encoder, the pooling of its outputs, and a projection to sentence vectors."""

    kind: Literal["sentence-encoder"] = "sentence-encoder"
    sides: Literal["auto", "shared", "separate"] = "auto"
    """shared: one encoder for both sides, which needs a joint vocabulary. separate: an encoder for each side. auto:
    shared with a joint vocabulary, separate without one."""
    pooling: PoolingName = "mean"
    """How the vectors of all positions become one. last: the final state of a recurrent encoder, the mean of a bag of
    words, and the end mark's vector for any other encoder. mean: the mean of all vectors. attention: their mean,
    weighted by learnt attention."""
    projection: Width | None = None
    """Width of the sentence vectors, which a linear layer computes from the pooled ones; by default, there is no such
    layer."""
    normalise: bool = True
    """Scale vectors to length 1, so that their dot products are cosines."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Dropout on the pooled vectors."""
    encoder: EncoderConfig = TransformerEncoderConfig()

    def is_shared(self, *, joint: bool) -> bool:
        """Whether both sides share one encoder; `joint` says whether they share one vocabulary."""
        return joint if self.sides == "auto" else self.sides == "shared"


class SentenceEncoderModel(nn.Module):
    """A sentence encoder.   Law: padding and other rows do not affect a sentence's vector."""

    def __init__(self, config: SentenceEncoderConfig, *, sizes: Sizes) -> None:
        super().__init__()
        if config.sides == "shared" and not sizes.joint:
            raise ConfigError(
                "model.sides = 'shared' needs one vocabulary for both sides: set text.joint = true, or "
                "model.sides = 'separate'"
            )
        is_shared = config.is_shared(joint=sizes.joint)
        self.source = Tower(config, vocabulary_size=sizes.source)
        self.target = None if is_shared else Tower(config, vocabulary_size=sizes.target)
        self.width = self.source.width

    def tower(self, side: Side) -> "Tower":
        """The encoder of a side."""
        return self.source if self.target is None or side == "source" else self.target

    def encode(self, sentences: Padded, side: Side) -> Tensor:
        """The vectors [B,W] of sentences [B,S] of one side, given as ids with end marks; in at least float32."""
        vectors: Tensor = self.tower(side)(sentences)
        return vectors

    def forward(self, sentences: Padded, side: Side) -> Tensor:
        """The same as `encode`."""
        return self.encode(sentences, side)


class Tower(nn.Module):
    """v = W p + b for the pooled outputs p of an encoder; divided by its norm if vectors are normalised."""

    def __init__(self, config: SentenceEncoderConfig, *, vocabulary_size: int) -> None:
        super().__init__()
        self.encoder = build_encoder(config.encoder, vocabulary_size=vocabulary_size)
        width = self.encoder.shape.width
        self.pooling: PoolingName = config.pooling
        self.attention = AttentionPooling(width) if config.pooling == "attention" else None
        self.projection = None if config.projection is None else nn.Linear(width, config.projection)
        self.width = width if config.projection is None else config.projection
        self.normalise = config.normalise
        self.dropout = config.dropout

    def forward(self, sentences: Padded) -> Tensor:
        pooled = dropout(self.pooled(self.encoder(sentences)), self.dropout, self.training)
        vectors = wide(pooled if self.projection is None else self.projection(pooled))
        return F.normalize(vectors, dim=-1) if self.normalise else vectors

    def pooled(self, memory: Memory) -> Tensor:
        """[B,D], one vector per sentence of an encoder's memory."""
        if self.attention is not None:
            pooled: Tensor = self.attention(memory.values, memory.mask)
            return pooled
        return pool_memory(self.pooling, memory, encoder=self.encoder)


def pool_memory(name: PoolingName, memory: Memory, *, encoder: Encoder) -> Tensor:
    """[B,D], one vector per sentence of an encoder's memory, by a method without learnt weights.

    last: the final state of the top layer, with both directions of a bidirectional encoder. For an encoder without
    states, it is the vector of the end mark; for a bag of words, the encoding of the mean word vector.
    """
    if name == "last" and isinstance(encoder, RecurrentEncoder | BagOfWordsEncoder):
        return memory.final[0][:, -1]
    return pool_states(name, memory.values, memory.mask)
