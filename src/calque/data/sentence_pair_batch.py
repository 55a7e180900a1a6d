"""Batches of sentence pairs whose sides are encoded separately.

Letters: B rows, S source, T target, N rows of all ranks. Each side consists of its tokens and EOS. Padding rows, which
fill a batch up to a static shape, consist of EOS and have weight 0.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calque.data.batch import row_slices
from calque.data.batching import WHOLE, Planned, Shard
from calque.data.pair_batch import pad_ids
from calque.data.store import Column, Store
from calque.tensors import Padded
from calque.text import EOS

Array = NDArray[Any]


class SentencePairBatch(NamedTuple):
    """One rank's padded pairs of sentences, and which sentences in the batches of all ranks are equal.

    The contrastive loss compares each source with the targets of all pairs, on all ranks. A target that equals the
    source's own must not count as a negative, so `alike` marks equal sentences. Because every pair is compared with
    every other, the batch cannot be divided to save memory: `split` returns a list with the whole batch, whose rows are
    then encoded in several groups, one after the other (see `slices`).
    """

    source: Padded  # values [B,S]
    target: Padded  # values [B,T]
    alike: Tensor  # [2,N], for each side a number that equal sentences share; padding rows have -1
    weight: int  # pairs
    shared_weight: int  # the pairs of all ranks
    shard: Shard = WHOLE
    parts: int = 1

    @property
    def rows(self) -> int:
        return len(self.source.lengths)

    @property
    def rows_together(self) -> int:
        """The largest number of rows in one of the `slices`."""
        return max(int(at.stop) - int(at.start) for at in self.slices)

    @property
    def slices(self) -> list[slice]:
        """The groups of rows that are encoded together."""
        return row_slices(self.rows, parts=self.parts)

    @property
    def positions(self) -> int:
        return self.source.values.numel() + self.target.values.numel()

    @property
    def filled(self) -> int:
        return int(self.source.lengths[: self.weight].sum()) + int(self.target.lengths[: self.weight].sum())

    @property
    def excluded(self) -> Tensor:
        """[N,N], true for pairs of rows that the loss must not use as negatives.

        These are rows with the same source or the same target, each row with itself, and all padding rows.
        """
        is_equal = (self.alike[:, :, None] == self.alike[:, None, :]).any(dim=0)
        return is_equal | (self.alike[0] < 0) | (self.alike[0] < 0)[:, None]

    def to(self, device: torch.device) -> "SentencePairBatch":
        placed = self.alike.to(device, non_blocking=True)
        return self._replace(source=self.source.to(device), target=self.target.to(device), alike=placed)

    def pin(self) -> "SentencePairBatch":
        source, target = (_pinned(side) for side in (self.source, self.target))
        return self._replace(source=source, target=target, alike=self.alike.pin_memory())

    def split(self, parts: int) -> "list[SentencePairBatch]":
        return [self._replace(parts=parts)]


def collate_sentence_pairs(store: Store, *, planned: Planned, shard: Shard = WHOLE) -> SentencePairBatch:
    """Collates a planned batch; with a shard, only that rank's rows, although `alike` covers all ranks' rows."""
    everything = planned
    planned = everything.shard(shard)
    rows, (source_width, target_width) = planned.size
    alike = np.full((2, rows * shard.ranks), -1)
    for side, name in enumerate(("source", "target")):
        alike[side, : len(everything.indices)] = _numbers(store[name], everything.indices)
    return SentencePairBatch(
        source=_side(store["source"], planned.indices, size=(rows, source_width)),
        target=_side(store["target"], planned.indices, size=(rows, target_width)),
        alike=torch.from_numpy(alike),
        weight=len(planned.indices),
        shared_weight=len(everything.indices),
        shard=shard,
    )


def _side(column: Column, indices: Array, *, size: tuple[int, int]) -> Padded:
    ids, lengths = pad_ids(column, indices, size=size)
    ids[np.arange(size[0]), lengths] = EOS
    return Padded(torch.from_numpy(ids), torch.from_numpy(lengths + 1))


def _numbers(column: Column, indices: Array) -> list[int]:
    """Numbers the sentences in the rows `indices` of a column; sentences with equal token ids get the same number."""
    flat, lengths = column.gather(indices)
    numbers: dict[bytes, int] = {}
    return [
        numbers.setdefault(row.tobytes(), len(numbers)) for row in np.split(flat, np.cumsum(lengths)[:-1].astype(int))
    ]


def _pinned(side: Padded) -> Padded:
    pin: Callable[[Tensor], Tensor] = Tensor.pin_memory
    return side._replace(values=pin(side.values), lengths=pin(side.lengths))
