"""Inputs of encoders: words composed of several parts, and frames.

Letters: B sentences, S words, C characters, W all words of a batch, F numbers of a frame, k stacked frames, E width.
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
    """Sentences of words, padded, with what else is known of each word."""

    words: Tensor  # [B,S] ids
    lengths: Tensor  # [B], on the CPU
    characters: Tensor | None = None  # [B,S,C] ids
    word_lengths: Tensor | None = None  # [B,S], on the CPU: how many characters a word has
    columns: tuple[Tensor, ...] = ()  # [B,S] ids each


class WordInputs(Inputs):
    """xₛ = [word vector; vector of its characters; a vector per further column].

    In training, words are replaced by the unknown word with probability `word_dropout`, so that its vector is learnt
    and the other parts are relied on; characters and columns stay.
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
            assert source.characters is not None and source.word_lengths is not None, "this model reads characters"
            parts.append(self._spelled(source.characters, source.word_lengths, lengths=source.lengths))
        for embedding, ids in zip(self.columns, source.columns, strict=True):
            parts.append(embedding(ids))
        return Padded(torch.cat(parts, dim=-1), source.lengths)

    def _spelled(self, characters: Tensor, word_lengths: Tensor, *, lengths: Tensor) -> Tensor:
        """[B,S,·]: only words that are there are read, and padding has zeros."""
        assert self.characters is not None
        size = characters.shape[1]
        places = length_mask(lengths, size=size).flatten().nonzero().squeeze(1)  # [W], known on the host
        here = places.to(characters.device, non_blocking=True)
        spelled = characters.flatten(0, 1).index_select(0, here)
        vectors = self.characters(Padded(spelled, word_lengths.flatten()[places].clamp(min=1)))
        flat: Tensor = vectors.new_zeros(characters.shape[0] * size, vectors.shape[1])
        return flat.index_copy(0, here, vectors).view(*characters.shape[:2], -1)


class FrameInputs(Inputs):
    """x = W [f₁; …; fₖ] + b of k neighbouring frames at a time, so that k frames become one position.

    A last group with fewer frames is filled with zeros.
    """

    def __init__(self, features: int, *, stacked: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(stacked * features, width)
        self.stacked = stacked
        self.width = width

    def forward(self, source: Padded) -> Padded:
        """[B,⌈S/k⌉,E] vectors of frames [B,S,F]."""
        frames = source.values.masked_fill(~source.mask[..., None], 0)
        rows, size, features = frames.shape
        missing = -size % self.stacked
        groups = F.pad(frames, (0, 0, 0, missing)).reshape(rows, (size + missing) // self.stacked, -1)
        assert groups.shape[-1] == self.stacked * features
        return Padded(self.linear(groups), self.subsampled(source.lengths))

    def subsampled(self, lengths: Tensor) -> Tensor:
        """[B], how many positions so many frames become: known on the host."""
        return torch.div(lengths + self.stacked - 1, self.stacked, rounding_mode="floor")
