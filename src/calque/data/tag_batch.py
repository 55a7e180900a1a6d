"""Batches of labelled sentences.

Letters: B rows, T words, C characters. Padding rows, which fill up a static shape, have no words and weight 0.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calque.data.batch import row_slices
from calque.data.batching import WHOLE, Planned, Shard
from calque.data.pair_batch import pad_ids
from calque.data.store import Store
from calque.data.tagging_preparation import WORD_LENGTHS
from calque.tensors import map_rows
from calque.text import PAD
from calque.text.forms import CHARACTERS, LABELS, WORDS

Array = NDArray[Any]


class TagBatch(NamedTuple):
    """Padded sentences of words with their labels."""

    words: Tensor  # [B,T]
    labels: Tensor  # [B,T], 0 after a sentence's last word
    lengths: Tensor  # [B], on the CPU; 0 for a padding row
    weight: int  # words
    shared_weight: int  # the weight of all ranks that share this batch
    characters: Tensor | None = None  # [B,T,C]
    word_lengths: Tensor | None = None  # [B,T], on the CPU
    columns: tuple[Tensor, ...] = ()  # [B,T] each

    @property
    def rows(self) -> int:
        return len(self.lengths)

    @property
    def positions(self) -> int:
        return self.words.numel()

    @property
    def filled(self) -> int:
        return self.weight

    def to(self, device: torch.device) -> "TagBatch":
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def pin(self) -> "TagBatch":
        return self._map(Tensor.pin_memory)

    def split(self, parts: int) -> "list[TagBatch]":
        return [self] if parts == 1 else [self._rows(at) for at in row_slices(self.rows, parts=parts)]

    def _rows(self, at: slice) -> "TagBatch":
        def select(tensor: Tensor) -> Tensor:
            return tensor[at]

        lengths = self.lengths[at]
        parts = (self.words, self.labels, self.characters, self.word_lengths, self.columns)
        words, labels, characters, word_lengths, columns = map_rows(select, parts)
        weight = int(lengths.sum())
        return TagBatch(words, labels, lengths, weight, self.shared_weight, characters, word_lengths, columns)

    def _map(self, function: Callable[[Tensor], Tensor]) -> "TagBatch":
        return self._replace(
            words=function(self.words),
            labels=function(self.labels),
            characters=None if self.characters is None else function(self.characters),
            columns=map_rows(function, self.columns),
        )


def collate_tags(store: Store, planned: Planned, *, columns: Sequence[str] = (), shard: Shard = WHOLE) -> TagBatch:
    """Collates a planned batch, with characters if the store has them; with a shard, only the rows of that rank."""
    shared_weight = int(store.widths(WORDS)[planned.indices].sum())
    planned = planned.shard(shard)
    indices, (rows, (width,)) = planned.indices, planned.size
    words, lengths = pad_ids(store[WORDS], indices, size=(rows, width))
    labels, *inputs = (pad_ids(store[name], indices, size=(rows, width))[0] for name in (LABELS, *columns))
    characters, word_lengths = _characters(store, indices, size=(rows, width)) if CHARACTERS in store else (None, None)
    return TagBatch(
        torch.from_numpy(words),
        torch.from_numpy(labels),
        torch.from_numpy(lengths),
        weight=int(lengths.sum()),
        shared_weight=shared_weight,
        characters=characters,
        word_lengths=word_lengths,
        columns=tuple(map(torch.from_numpy, inputs)),
    )


def _characters(store: Store, indices: Array, *, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The character ids of each word, [B,T,C], and their number, [B,T], for B sentences padded to T words (`size`)."""
    word_lengths, _ = pad_ids(store[WORD_LENGTHS], indices, size=size)
    flat, _ = store[CHARACTERS].gather(indices)
    longest = max(1, int(word_lengths.max(initial=0)))
    characters = np.full((*size, longest), PAD, dtype=np.int64)
    characters[np.arange(longest) < word_lengths[..., None]] = flat
    return torch.from_numpy(characters), torch.from_numpy(word_lengths)
