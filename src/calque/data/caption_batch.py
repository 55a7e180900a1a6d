"""Batches of images with one caption each.

Letters: B rows, H height and width of an image, T tokens, S positions of an encoded image.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from calque.data.batching import WHOLE, Planned, Shard
from calque.data.caption_preparation import CAPTION, CAPTION_LENGTHS, IMAGE
from calque.data.pair_batch import PairBatch, shifted
from calque.data.store import Column, Store, Widths
from calque.tensors import Padded
from calque.text import PAD

Array = NDArray[Any]


class CaptionBatch(PairBatch):
    """Pairs of an image and a caption: `source.values` are pixels of uint8 [B,H,H,3].

    `source.lengths` are the positions S of an encoded image, the same number for every row.
    """

    @property
    def positions(self) -> int:
        return int(self.source.lengths.sum()) + self.target_input.numel()


def caption_widths(store: Store, *, positions: int) -> tuple[Widths, Widths]:
    """The number of positions that each row takes in a batch: for its encoded image, and for its longest caption.

    The caption's positions include one for BOS or EOS.
    """
    column = store[CAPTION_LENGTHS]
    longest = np.zeros(len(store), dtype=np.uint32)
    if len(store):
        longest = np.maximum.reduceat(column.values, column.offsets.astype(np.int64)).astype(np.uint32)
    return Widths(np.full(len(store), positions, dtype=np.uint32)), Widths(longest, marks=1)


def collate_captions(store: Store, planned: Planned, *, turn: int, shard: Shard = WHOLE) -> CaptionBatch:
    """Collates a planned batch, with one caption per image; with a shard, only the rows of that rank.

    If an image has n captions, they take turns: row i has caption number (i + turn) mod n. In training, `turn` is the
    epoch.
    """
    shared_weight = int((_chosen(store, planned.indices, turn=turn)[1] + 1).sum())
    planned = planned.shard(shard)
    rows, (positions, width) = planned.size
    starts, lengths = _chosen(store, planned.indices, turn=turn)
    ids = np.full((rows, width), PAD, dtype=np.int64)
    for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        ids[row, :length] = store[CAPTION].values[start : start + length]
    target_lengths = np.zeros(rows, dtype=np.int64)
    real = np.arange(len(planned.indices))
    target_lengths[real] = lengths
    target_input, target_output = shifted(ids, target_lengths, real=real)
    target_lengths[real] += 1
    pixels = gather_pixels(store[IMAGE], planned.indices, rows=rows)
    return CaptionBatch(
        source=Padded(torch.from_numpy(pixels), torch.full((rows,), positions)),
        target_input=torch.from_numpy(target_input),
        target_output=torch.from_numpy(target_output),
        target_lengths=torch.from_numpy(target_lengths),
        weight=int(target_lengths.sum()),
        shared_weight=shared_weight,
    )


def gather_pixels(column: Column, indices: Array, *, rows: int) -> Array:
    """The images [B,H,H,3] of the rows with these indices, followed by black images up to `rows`."""
    size = column.values.shape[1]
    pixels = np.zeros((rows, size, size, 3), dtype=np.uint8)
    for row, index in enumerate(indices.tolist()):
        pixels[row] = column.row(index)
    return pixels


def _chosen(store: Store, indices: Array, *, turn: int) -> tuple[Array, Array]:
    """Chooses one caption per row by `turn`; returns where it starts in the column of captions, and its length."""
    lengths, flat = store[CAPTION_LENGTHS], store[CAPTION]
    first = lengths.offsets[indices].astype(np.int64)
    number = (indices.astype(np.int64) + turn) % lengths.lengths[indices].astype(np.int64)
    starts = flat.offsets[indices].astype(np.int64)
    for row, (at, count) in enumerate(zip(first.tolist(), number.tolist(), strict=True)):
        starts[row] += int(lengths.values[at : at + count].sum())
    return starts, lengths.values[first + number].astype(np.int64)
