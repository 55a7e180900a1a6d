"""Batches for language models: padded lines, or segments of running text.

Letters: B rows, T tokens. For a line, the inputs are BOS and its tokens, the outputs its tokens and EOS.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from calque.data.batch import row_slices
from calque.data.batching import WHOLE, Planned, Shard
from calque.data.pair_batch import pad_ids, shifted
from calque.data.store import Store
from calque.text import PAD

COLUMN = "text"


class TextBatch(NamedTuple):
    """Padded lines, or the next segment of every stream of running text."""

    inputs: Tensor  # [B,T]
    outputs: Tensor  # [B,T], PAD at positions without a token to predict
    lengths: Tensor  # [B], on the CPU; 0 for a padding row
    weight: int  # tokens to be predicted
    shared_weight: int  # the weight of all ranks that share this batch
    begins: bool = True  # whether the rows begin a text, so that no earlier state is needed

    @property
    def rows(self) -> int:
        return len(self.lengths)

    @property
    def positions(self) -> int:
        return self.inputs.numel()

    @property
    def filled(self) -> int:
        return self.weight

    def to(self, device: torch.device) -> "TextBatch":
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def pin(self) -> "TextBatch":
        return self._map(Tensor.pin_memory)

    def split(self, parts: int) -> "list[TextBatch]":
        if parts == 1:
            return [self]
        return [
            self._replace(
                inputs=self.inputs[at],
                outputs=self.outputs[at],
                lengths=self.lengths[at],
                weight=int(self.lengths[at].sum()),
            )
            for at in row_slices(self.rows, parts=parts)
        ]

    def _map(self, function: Callable[[Tensor], Tensor]) -> "TextBatch":
        return self._replace(inputs=function(self.inputs), outputs=function(self.outputs))


def collate_lines(store: Store, planned: Planned, *, shard: Shard = WHOLE) -> TextBatch:
    """Collates a planned batch of lines, with BOS, EOS and padding; with a shard, only the rows of that rank."""
    shared_weight = int(store.widths(COLUMN, marks=1)[planned.indices].sum())
    planned = planned.shard(shard)
    rows, (width,) = planned.size
    ids, lengths = pad_ids(store[COLUMN], planned.indices, size=(rows, width))
    real = np.arange(len(planned.indices))
    inputs, outputs = shifted(ids, lengths, real=real)
    lengths[real] += 1
    return TextBatch(
        torch.from_numpy(inputs),
        torch.from_numpy(outputs),
        torch.from_numpy(lengths),
        weight=int(lengths.sum()),
        shared_weight=shared_weight,
    )


def collate_streams(store: Store, planned: Planned, *, shard: Shard = WHOLE) -> TextBatch:
    """A batch with the next segment of every stream of running text. The store already contains the end marks."""
    (width,) = planned.size.widths
    shared_weight = width * len(planned.indices)
    begins = bool(planned.indices[0] == 0)
    planned = planned.shard(shard)
    real = len(planned.indices)
    starts = np.zeros(
        planned.size.rows, dtype=np.int64
    )  # all ranks have the same number of rows; some are padding rows
    starts[:real] = planned.indices
    tokens = store[COLUMN].values[starts[:, None] + np.arange(width + 1)].astype(np.int64)
    tokens[real:, 1:] = PAD
    lengths = np.where(np.arange(planned.size.rows) < real, width, 0)
    return TextBatch(
        torch.from_numpy(tokens[:, :-1].copy()),
        torch.from_numpy(tokens[:, 1:].copy()),
        torch.from_numpy(lengths),
        weight=int(lengths.sum()),
        shared_weight=shared_weight,
        begins=begins,
    )
