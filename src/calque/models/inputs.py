"""Inputs of encoders other than token ids: words with characters and annotations, and frames of feature values.

Letters: B sentences, S words, C characters, W all words of a batch, F values per frame, k stacked frames, E width.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.embedding import UNKNOWN
from calque.models.characters import CharacterEncoder
from calque.models.interfaces import Inputs
from calque.models.recurrent import WordEmbedding
from calque.tensors import Padded, length_mask


class Words(NamedTuple):
    """Padded sentences of words, with each word's characters and annotations (`columns`, such as part of speech)."""

    words: Tensor  # [B,S] ids
    lengths: Tensor  # [B], on the CPU
    characters: Tensor | None = None  # [B,S,C] ids
    word_lengths: Tensor | None = None  # [B,S], on the CPU: the number of characters of each word
    columns: tuple[Tensor, ...] = ()  # [B,S] ids each


class WordInputs(Inputs):
    """The input vectors of words: xₛ = [word vector; vector of its characters; a vector per annotation].

    In training, words are replaced by the unknown word with probability `word_dropout`, so that its vector is learnt
    and the model learns to rely on characters and annotations, which are never replaced.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        width: int,
        word_dropout: float = 0.0,
        characters: CharacterEncoder | None = None,
        columns: Mapping[str, int] | None = None,
        column_width: int = 0,
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(vocabulary_size, width=width, dropout=0.0)
        self.characters = characters
        self.columns = nn.ModuleList(
            WordEmbedding(size, width=column_width, dropout=0.0) for size in (columns or {}).values()
        )
        self.word_dropout = word_dropout
        self.width = width + (0 if characters is None else characters.width) + column_width * len(self.columns)

    def forward(self, source: Words) -> Padded:
        words = source.words
        if self.training and self.word_dropout:
            words = words.masked_fill(torch.rand(words.shape, device=words.device) < self.word_dropout, UNKNOWN)
        parts = [self.words(words)]
        if self.characters is not None:
            assert source.characters is not None and source.word_lengths is not None, (
                "this model needs the characters of every word"
            )
            parts.append(self._character_vectors(source.characters, source.word_lengths, lengths=source.lengths))
        for embedding, ids in zip(self.columns, source.columns, strict=True):
            parts.append(embedding(ids))
        return Padded(torch.cat(parts, dim=-1), source.lengths)

    def _character_vectors(self, characters: Tensor, word_lengths: Tensor, *, lengths: Tensor) -> Tensor:
        """The vectors [B,S,·] of all words, computed from their characters; padding is not encoded and gets zeros."""
        assert self.characters is not None
        size = characters.shape[1]
        indices = length_mask(lengths, size=size).flatten().nonzero().squeeze(1)  # [W], on the CPU
        device_indices = indices.to(characters.device, non_blocking=True)
        word_characters = characters.flatten(0, 1).index_select(0, device_indices)
        vectors = self.characters(Padded(word_characters, word_lengths.flatten()[indices].clamp(min=1)))
        flat: Tensor = vectors.new_zeros(characters.shape[0] * size, vectors.shape[1])
        return flat.index_copy(0, device_indices, vectors).view(*characters.shape[:2], -1)


class FrameInputs(Inputs):
    """The input vectors of frames: every k neighbouring frames f are stacked and projected, x = W [f₁; …; fₖ] + b.

    If the last group has fewer frames, it is padded with zeros.
    """

    def __init__(self, features: int, *, stacked: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(stacked * features, width)
        self.stacked = stacked
        self.width = width

    def forward(self, source: Padded) -> Padded:
        """Vectors [B,⌈S/k⌉,E], given frames [B,S,F]."""
        frames = source.values.masked_fill(~source.mask[..., None], 0)
        rows, size, features = frames.shape
        missing = -size % self.stacked
        groups = F.pad(frames, (0, 0, 0, missing)).reshape(rows, (size + missing) // self.stacked, -1)
        assert groups.shape[-1] == self.stacked * features
        return Padded(self.linear(groups), self.subsampled(source.lengths))

    def subsampled(self, lengths: Tensor) -> Tensor:
        """The number of positions [B] after stacking, given the numbers of frames; computed on the CPU."""
        return torch.div(lengths + self.stacked - 1, self.stacked, rounding_mode="floor")
