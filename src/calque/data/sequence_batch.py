"""Batches of behaviour sequences, for recommenders.

Letters: B rows, T items of a history. At position t, the model has read items 1…t and predicts item t + 1. Padding
rows, which fill a batch up to a static shape, have no items and weight 0.
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
from calque.data.sequence_files import BEHAVIOURS, ITEMS, TIMES
from calque.data.store import Column, Store, Widths
from calque.tensors import map_rows

Array = NDArray[Any]


class SequenceBatch(NamedTuple):
    """Padded histories, and the item that follows each of their items."""

    items: Tensor  # [B,T]
    targets: Tensor  # [B,T], PAD (0) at positions without an item to predict
    lengths: Tensor  # [B], on the CPU; 0 for a padding row
    weight: int  # items to be predicted
    shared_weight: int  # the weight of all ranks that share this batch
    times: Tensor | None = None  # [B,T], the time of each item, in seconds since the user's first
    asked: Tensor | None = None  # [B,T], the time at which the next item is predicted: that of the target
    behaviours: Tensor | None = None  # [B,T]

    @property
    def rows(self) -> int:
        return len(self.lengths)

    @property
    def positions(self) -> int:
        return self.items.numel()

    @property
    def filled(self) -> int:
        return self.weight

    def to(self, device: torch.device) -> "SequenceBatch":
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def pin(self) -> "SequenceBatch":
        return self._map(Tensor.pin_memory)

    def split(self, parts: int) -> "list[SequenceBatch]":
        return [self] if parts == 1 else [self._rows(at) for at in row_slices(self.rows, parts=parts)]

    def _rows(self, at: slice) -> "SequenceBatch":
        selected = self._map(lambda tensor: tensor[at])
        lengths = self.lengths[at]
        return selected._replace(lengths=lengths, weight=int(lengths.sum()))

    def _map(self, function: Callable[[Tensor], Tensor]) -> "SequenceBatch":
        parts = (self.items, self.targets, self.times, self.asked, self.behaviours)
        items, targets, times, asked, behaviours = map_rows(function, parts)
        return self._replace(items=items, targets=targets, times=times, asked=asked, behaviours=behaviours)


def history_widths(store: Store, *, history: int) -> Widths:
    """The number of positions that each row takes in a batch: one less than it has items, but at most `history`."""
    return Widths(np.minimum(store[ITEMS].lengths.astype(np.int64) - 1, history))


def collate_sequences(store: Store, planned: Planned, *, history: int, shard: Shard = WHOLE) -> SequenceBatch:
    """Collates a planned batch, with the last `history` + 1 items per row; with a shard, only that rank's rows."""
    shared_weight = int(np.minimum(store[ITEMS].lengths[planned.indices].astype(np.int64) - 1, history).sum())
    planned = planned.shard(shard)
    rows, (width,) = planned.size
    read, lengths = {}, np.zeros(rows, dtype=np.int64)
    for name in (ITEMS, TIMES, BEHAVIOURS):
        if name in store:
            column = last_values(store[name], planned.indices, count=history + 1)
            read[name], lengths = pad_ids(column, np.arange(len(planned.indices)), size=(rows, width + 1))
    lengths = np.maximum(lengths - 1, 0)
    is_read = np.arange(width) < lengths[:, None]

    def inputs(name: str) -> Tensor | None:
        return torch.from_numpy(np.where(is_read, read[name][:, :-1], 0)) if name in read else None

    items = inputs(ITEMS)
    assert items is not None
    return SequenceBatch(
        items,
        torch.from_numpy(read[ITEMS][:, 1:].copy()),
        torch.from_numpy(lengths),
        weight=int(lengths.sum()),
        shared_weight=shared_weight,
        times=inputs(TIMES),
        asked=torch.from_numpy(read[TIMES][:, 1:].copy()) if TIMES in read else None,
        behaviours=inputs(BEHAVIOURS),
    )


def last_values(column: Column, indices: Array, *, count: int) -> Column:
    """A column with the last `count` values of each of the rows `indices`."""
    lengths = column.lengths[indices].astype(np.int64)
    kept = np.minimum(lengths, count)
    return Column(column.values, column.offsets[indices].astype(np.int64) + lengths - kept, kept)


def stack_histories(rows: Sequence[Sequence[int]], *, width: int) -> Tensor:
    """Stacks rows of ids or times into [B,width], padded with zeros."""
    values = np.zeros((len(rows), width), dtype=np.int64)
    for index, row in enumerate(rows):
        values[index, : len(row)] = row
    return torch.from_numpy(values)
