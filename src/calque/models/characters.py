"""A vector per word from its characters: the last states of an LSTM, or the maxima of a convolution.

Letters: W words, C characters, E embedding, D width, k kernel.
"""

from typing import Annotated, Literal, Self, assert_never

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config
from calque.layers.bounds import Kernel, Width
from calque.models.recurrent import RecurrentEncoder, RecurrentEncoderConfig, WordEmbedding
from calque.tensors import Padded

Probability = Annotated[float, Field(ge=0, lt=1)]


class NoCharactersConfig(Config):
    """Words are represented by their word vectors only."""

    kind: Literal["none"] = "none"


class RecurrentCharactersConfig(Config):
    """A bidirectional LSTM over a word's characters (Lample et al. 2016, §4.1)."""

    kind: Literal["recurrent"] = "recurrent"
    embedding: Width = 25
    """Width of the character vectors."""
    width: Width = 50
    """Width of a word's vector; each direction gets half."""
    dropout: Probability = 0.0
    """Dropout on the character vectors."""

    @model_validator(mode="after")
    def _even(self) -> Self:
        if self.width % 2:
            raise ValueError(f"width {self.width} must be even: each direction gets half")
        return self


class ConvolutionalCharactersConfig(Config):
    """A convolution over a word's characters with max pooling (Ma and Hovy 2016, §2.1)."""

    kind: Literal["convolutional"] = "convolutional"
    embedding: Width = 30
    """Width of the character vectors."""
    width: Width = 30
    """Width of a word's vector: the number of filters."""
    kernel: Kernel = 3
    """The number of neighbouring characters that a filter covers."""
    dropout: Probability = 0.0
    """Dropout on the character vectors."""


CharactersConfig = Annotated[
    NoCharactersConfig | RecurrentCharactersConfig | ConvolutionalCharactersConfig, Field(discriminator="kind")
]


class CharacterEncoder(nn.Module):
    """Computes word vectors from characters. Law: neither padding nor other words affect a word's vector."""

    width: int  # D

    def forward(self, characters: Padded) -> Tensor:
        """The vectors [W,D] of words, given their characters [W,C]."""
        raise NotImplementedError


class RecurrentCharacters(CharacterEncoder):
    """Encodes a word by the last states of a forward and a backward LSTM over its characters."""

    def __init__(self, config: RecurrentCharactersConfig, *, vocabulary_size: int) -> None:
        super().__init__()
        sizes = {"embedding": config.embedding, "width": config.width, "dropout": config.dropout}
        self.encoder = RecurrentEncoder(
            RecurrentEncoderConfig.model_validate({"layers": 1, **sizes}), vocabulary_size=vocabulary_size
        )
        self.width = config.width

    def forward(self, characters: Padded) -> Tensor:
        state: Tensor = self.encoder(characters).final[0]
        return state[:, -1]


class ConvolutionalCharacters(CharacterEncoder):
    """Encodes a word by a convolution over its character vectors c, with max pooling over the positions i.

    maxᵢ (W [cᵢ₋ₖ/₂; …; cᵢ₊ₖ/₂] + b), with zeros around the word and dropout on the character vectors.
    """

    def __init__(self, config: ConvolutionalCharactersConfig, *, vocabulary_size: int) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary_size, width=config.embedding, dropout=config.dropout)
        self.convolution = nn.Conv1d(config.embedding, config.width, config.kernel)
        self.margins = ((config.kernel - 1) // 2, config.kernel // 2)
        self.width = config.width

    def forward(self, characters: Padded) -> Tensor:
        mask = characters.mask[:, None]  # [W,1,C]
        vectors = self.embedding(characters.values).transpose(1, 2).masked_fill(~mask, 0)
        filtered: Tensor = self.convolution(F.pad(vectors, self.margins))
        return filtered.masked_fill(~mask, -torch.inf).amax(dim=2)


def build_characters(config: CharactersConfig, *, vocabulary_size: int) -> CharacterEncoder | None:
    """The character encoder of a config; None if words are read without their characters."""
    match config:
        case NoCharactersConfig():
            return None
        case RecurrentCharactersConfig():
            return RecurrentCharacters(config, vocabulary_size=vocabulary_size)
        case ConvolutionalCharactersConfig():
            return ConvolutionalCharacters(config, vocabulary_size=vocabulary_size)
        case _:
            assert_never(config)
