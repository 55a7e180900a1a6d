"""Batches of padded ids, made from a store as its plan says, one thread ahead of who reads them.

Letters: B rows, S source, T target. A source row is its pieces and EOS; the decoder reads BOS and the pieces and
should say the pieces and EOS. Rows that only fill a static shape up hold EOS against nothing and weigh nothing.
"""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calque.data.plan import WHOLE, Plan, Planned, Shard
from calque.data.store import Side, Store
from calque.tensors import Padded
from calque.text import BOS, EOS, PAD

Array = NDArray[Any]


class Batch(NamedTuple):
    """Pairs of sentences, padded."""

    source: Padded  # values [B,S]
    target_input: Tensor  # [B,T]
    target_output: Tensor  # [B,T], PAD where there is nothing to say
    target_lengths: Tensor  # [B], 0 for a row that only fills a shape up
    tokens: int  # target tokens to be predicted
    shared_tokens: int  # those of all ranks that share this batch; `tokens` where nobody does

    @property
    def positions(self) -> int:
        """Places for source and target tokens, padding too."""
        return self.source.values.numel() + self.target_input.numel()

    @property
    def filled(self) -> int:
        """Those that are not padding."""
        return int(self.source.lengths.sum()) + self.tokens

    def to(self, device: torch.device) -> "Batch":
        """The same batch on `device`; lengths stay on the host."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def pin(self) -> "Batch":
        """The same batch in pinned memory, from where a copy to a GPU does not wait."""
        return self._map(Tensor.pin_memory)

    def split(self, parts: int) -> "list[Batch]":
        """The same rows in so many batches, or in as many as there are rows."""
        rows = len(self.target_lengths)
        if parts == 1:
            return [self]
        edges = [round(place * rows / min(parts, rows)) for place in range(min(parts, rows) + 1)]
        return [self._rows(slice(start, stop)) for start, stop in pairwise(edges)]

    def _rows(self, at: slice) -> "Batch":
        lengths = self.target_lengths[at]
        return Batch(
            source=Padded(self.source.values[at], self.source.lengths[at]),
            target_input=self.target_input[at],
            target_output=self.target_output[at],
            target_lengths=lengths,
            tokens=int(lengths.sum()),
            shared_tokens=self.shared_tokens,
        )

    def _map(self, function: Callable[[Tensor], Tensor]) -> "Batch":
        return self._replace(
            source=self.source._replace(values=function(self.source.values)),
            target_input=function(self.target_input),
            target_output=function(self.target_output),
        )


def collate(store: Store, *, planned: Planned, shard: Shard = WHOLE) -> Batch:
    """The batch a plan asks for, or one rank's rows of it."""
    shared_tokens = int(store.target_lengths[planned.indices].sum())
    planned = planned.shard(shard)
    rows, source_width, target_width = planned.shape
    source, source_lengths = _rows(store.source, planned.indices, size=(rows, source_width))
    target, target_lengths = _rows(store.target, planned.indices, size=(rows, target_width))
    source_lengths = np.maximum(source_lengths, 1)  # attention over nothing would be NaN
    source[np.arange(rows), source_lengths - 1] = EOS
    target_input = np.full_like(target, PAD)
    target_input[:, 0] = BOS
    target_input[:, 1:] = target[:, :-1]
    real = np.arange(len(planned.indices))
    target[real, target_lengths[real] - 1] = EOS
    return Batch(
        source=Padded(torch.from_numpy(source), torch.from_numpy(source_lengths)),
        target_input=torch.from_numpy(target_input),
        target_output=torch.from_numpy(target),
        target_lengths=torch.from_numpy(target_lengths),
        tokens=int(target_lengths.sum()),
        shared_tokens=shared_tokens,
    )


def batches(
    store: Store,
    *,
    plan: Plan,
    epoch: int,
    start: int = 0,
    shard: Shard = WHOLE,
    ahead: int = 4,
    place: Callable[[Batch], Batch] | None = None,
) -> Iterator[Batch]:
    """The batches of one epoch from the `start`-th on, in the plan's order, up to `ahead` of them made early.

    `place` (pinning, say) runs in the thread that makes the batches.
    """
    made = (collate(store, planned=planned, shard=shard) for planned in plan.batches(epoch, start=start))
    return prefetch(map(place, made) if place else made, ahead=ahead)


def prefetch(items: Iterable[Batch], *, ahead: int) -> Iterator[Batch]:
    """The items in their order, up to `ahead` of them made early by one thread; its errors are raised here."""
    ready: queue.Queue[Batch | BaseException | None] = queue.Queue(maxsize=ahead)
    stopped = threading.Event()
    thread = threading.Thread(target=_fill, args=(items, ready, stopped), name="calque-batches", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        thread.join()


def _fill(items: Iterable[Batch], ready: "queue.Queue[Batch | BaseException | None]", stopped: threading.Event) -> None:
    def offer(item: Batch | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=0.05)
            except queue.Full:
                continue
            return

    try:
        for item in items:
            offer(item)
            if stopped.is_set():
                return
        offer(None)
    except BaseException as error:  # the reader raises it
        offer(error)


def _rows(side: Side, indices: Array, *, size: tuple[int, int]) -> tuple[Array, Array]:
    """[B,width] ids with PAD behind them, and [B] lengths with EOS counted; 0 for rows beyond the indices."""
    values = np.full(size, PAD, dtype=np.int64)
    lengths = np.zeros(size[0], dtype=np.int64)
    lengths[: len(indices)] = side.lengths[indices]
    pieces = np.maximum(lengths - 1, 0)
    starts = side.offsets[indices].astype(np.int64) - (np.cumsum(pieces) - pieces)[: len(indices)]
    places = np.repeat(starts, pieces[: len(indices)]) + np.arange(pieces.sum())
    values[np.arange(size[1]) < pieces[:, None]] = side.ids[places]
    return values, lengths
