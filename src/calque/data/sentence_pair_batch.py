"""Batches of sentence pairs of which each side is encoded by itself.

Letters: B rows, S source, T target, R ranks, N rows of all ranks. Both sides are their tokens and EOS. Rows that only
fill a shape have EOS alone and weight 0.
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
    """Padded pairs of sentences: those of one rank, and which pairs of the batch of all ranks are alike.

    The batch cannot be divided, as every pair is compared with every other. `split` returns the whole batch, of which
    the rows of one `slices` at a time are encoded.
    """

    source: Padded  # values [B,S]
    target: Padded  # values [B,T]
    alike: Tensor  # [2,N], for each side a number that equal sentences share; rows that only fill a shape have -1
    weight: int  # pairs
    shared_weight: int  # the pairs of all ranks
    shard: Shard = WHOLE
    parts: int = 1

    @property
    def rows(self) -> int:
        return len(self.source.lengths)

    @property
    def rows_together(self) -> int:
        """The largest number of rows that are encoded together."""
        return max(int(at.stop) - int(at.start) for at in self.slices)

    @property
    def slices(self) -> list[slice]:
        """The rows that are encoded together."""
        return row_slices(self.rows, parts=self.parts)

    @property
    def positions(self) -> int:
        return self.source.values.numel() + self.target.values.numel()

    @property
    def filled(self) -> int:
        return int(self.source.lengths[: self.weight].sum()) + int(self.target.lengths[: self.weight].sum())

    @property
    def excluded(self) -> Tensor:
        """[N,N], the pairs of rows that are not compared: sentences that are equal, and rows that fill a shape."""
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
    """The padded batch of a plan; with a shard, only the rows of that rank, but `alike` of all."""
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
    """A number for each row, which equal rows share."""
    flat, lengths = column.gather(indices)
    numbers: dict[bytes, int] = {}
    return [
        numbers.setdefault(row.tobytes(), len(numbers)) for row in np.split(flat, np.cumsum(lengths)[:-1].astype(int))
    ]


def _pinned(side: Padded) -> Padded:
    pin: Callable[[Tensor], Tensor] = Tensor.pin_memory
    return side._replace(values=pin(side.values), lengths=pin(side.lengths))
