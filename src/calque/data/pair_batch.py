"""Batches of sentence pairs.

Letters: B rows, S source, T target. A source row consists of its tokens and EOS. The decoder's inputs are BOS and the
target tokens, its outputs the target tokens and EOS. Padding rows, which fill a batch up to a static shape, have EOS
alone as their source, no target, and weight 0.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calque.data.batch import row_slices
from calque.data.batching import WHOLE, Planned, Shard
from calque.data.store import Column, Store, Widths
from calque.data.word_alignments import LINKS, guide
from calque.tensors import Padded
from calque.text import BOS, EOS, PAD

Array = NDArray[Any]


class PairBatch(NamedTuple):
    """Padded pairs of sentences."""

    source: Padded  # values [B,S]
    target_input: Tensor  # [B,T]
    target_output: Tensor  # [B,T], PAD at positions without a token to predict
    target_lengths: Tensor  # [B], 0 for a padding row
    weight: int  # target tokens to be predicted
    shared_weight: int  # the weight of all ranks that share this batch; `weight` with a single rank
    guide: Tensor | None = None  # [B,T,S], the shares of the aligned source positions, if there are word alignments

    @property
    def rows(self) -> int:
        return len(self.target_lengths)

    @property
    def positions(self) -> int:
        """The number of source and target positions, padding included."""
        return self.source.values.numel() + self.target_input.numel()

    @property
    def filled(self) -> int:
        """The number of positions that are not padding."""
        return int(self.source.lengths.sum()) + self.weight

    def to(self, device: torch.device) -> Self:
        """The same batch on `device`. Lengths stay on the CPU; those of the source are also copied to the device."""
        placed = self._map(lambda tensor: tensor.to(device, non_blocking=True))
        return placed._replace(source=self.source.to(device))

    def pin(self) -> Self:
        """The same batch in pinned memory, from which a copy to a GPU is asynchronous."""
        pinned = self._map(Tensor.pin_memory)
        return pinned._replace(source=pinned.source._replace(lengths=self.source.lengths.pin_memory()))

    def split(self, parts: int) -> list[Self]:
        """The same rows in `parts` smaller batches, or one batch per row if there are fewer rows."""
        return [self] if parts == 1 else [self._rows(at) for at in row_slices(self.rows, parts=parts)]

    def _rows(self, at: slice) -> Self:
        lengths = self.target_lengths[at]
        return self._replace(
            source=Padded(self.source.values[at], self.source.lengths[at]),
            target_input=self.target_input[at],
            target_output=self.target_output[at],
            target_lengths=lengths,
            weight=int(lengths.sum()),
            guide=None if self.guide is None else self.guide[at],
        )

    def _map(self, function: Callable[[Tensor], Tensor]) -> Self:
        return self._replace(
            source=self.source._replace(values=function(self.source.values)),
            target_input=function(self.target_input),
            target_output=function(self.target_output),
            guide=None if self.guide is None else function(self.guide),
        )


def pair_widths(store: Store) -> tuple[Widths, Widths]:
    """The numbers of positions that source and target take in a batch, BOS or EOS included."""
    return store.widths("source", marks=1), store.widths("target", marks=1)


def collate_pairs(store: Store, *, planned: Planned, shard: Shard = WHOLE) -> PairBatch:
    """Collates a planned batch with padding; with a shard, only the rows of that rank."""
    shared_weight = int(store.widths("target", marks=1)[planned.indices].sum())
    planned = planned.shard(shard)
    rows, (source_width, target_width) = planned.size
    source, source_lengths = pad_ids(store["source"], planned.indices, size=(rows, source_width))
    target, target_lengths = pad_ids(store["target"], planned.indices, size=(rows, target_width))
    source[np.arange(rows), source_lengths] = EOS  # also in padding rows: attention over no positions is NaN
    real = np.arange(len(planned.indices))
    target_input, target_output = shifted(target, target_lengths, real=real)
    target_lengths[real] += 1
    size = (rows, target_width, source_width)
    shares = guide(store[LINKS], planned.indices, size=size) if LINKS in store else None
    return PairBatch(
        source=Padded(torch.from_numpy(source), torch.from_numpy(source_lengths + 1)),
        target_input=torch.from_numpy(target_input),
        target_output=torch.from_numpy(target_output),
        target_lengths=torch.from_numpy(target_lengths),
        weight=int(target_lengths.sum()),
        shared_weight=shared_weight,
        guide=None if shares is None else torch.from_numpy(shares),
    )


def shifted(ids: Array, lengths: Array, *, real: Array) -> tuple[Array, Array]:
    """A decoder's inputs (BOS and the ids) and outputs (the ids and EOS); the outputs overwrite `ids`.

    `real` are the indices of the rows with data. All other rows are padding rows, whose outputs have no EOS.
    """
    inputs = np.full_like(ids, PAD)
    inputs[:, 0] = BOS
    inputs[:, 1:] = ids[:, :-1]
    ids[real, lengths[real]] = EOS
    return inputs, ids


def pad_ids(column: Column, indices: Array, *, size: tuple[int, int]) -> tuple[Array, Array]:
    """The ids [B,width] of the rows with these indices, padded with PAD, and their lengths [B].

    `size` is (B, width). If B exceeds the number of indices, the remaining rows are empty.
    """
    values = np.full(size, PAD, dtype=np.int64)
    lengths = np.zeros(size[0], dtype=np.int64)
    flat, lengths[: len(indices)] = column.gather(indices)
    values[np.arange(size[1]) < lengths[:, None]] = flat
    return values, lengths
