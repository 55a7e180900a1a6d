"""Batches of padded ids, made from a store as its plan says, some threads ahead of who reads them.

Letters: B rows, S source, T target. A source row is its pieces and EOS; the decoder reads BOS and the pieces and
should say the pieces and EOS. Rows that only fill a static shape up hold EOS against nothing and weigh nothing.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calque.data.batching import WHOLE, Plan, Planned, Shard
from calque.data.store import Side, Store
from calque.data.word_alignments import guide
from calque.tensors import Padded
from calque.text import BOS, EOS, PAD

Array = NDArray[Any]
Item = TypeVar("Item")
Result = TypeVar("Result")


class Batch(NamedTuple):
    """Pairs of sentences, padded."""

    source: Padded  # values [B,S]
    target_input: Tensor  # [B,T]
    target_output: Tensor  # [B,T], PAD where there is nothing to say
    target_lengths: Tensor  # [B], 0 for a row that only fills a shape up
    tokens: int  # target tokens to be predicted
    shared_tokens: int  # those of all ranks that share this batch; `tokens` where nobody does
    guide: Tensor | None = None  # [B,T,S], the aligned source places' shares of each target place, where they are known

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
            guide=None if self.guide is None else self.guide[at],
        )

    def _map(self, function: Callable[[Tensor], Tensor]) -> "Batch":
        return self._replace(
            source=self.source._replace(values=function(self.source.values)),
            target_input=function(self.target_input),
            target_output=function(self.target_output),
            guide=None if self.guide is None else function(self.guide),
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
    size = (rows, target_width, source_width)
    shares = None if store.links is None else guide(store.links, planned.indices, size=size)
    return Batch(
        source=Padded(torch.from_numpy(source), torch.from_numpy(source_lengths)),
        target_input=torch.from_numpy(target_input),
        target_output=torch.from_numpy(target),
        target_lengths=torch.from_numpy(target_lengths),
        tokens=int(target_lengths.sum()),
        shared_tokens=shared_tokens,
        guide=None if shares is None else torch.from_numpy(shares),
    )


class Make(Protocol):
    """Another way to make what is planned for an epoch, or one rank's rows of it, into a batch."""

    def __call__(self, planned: Planned, *, epoch: int, shard: Shard) -> Batch: ...


def batches(
    store: Store,
    *,
    plan: Plan,
    epoch: int,
    start: int = 0,
    shard: Shard = WHOLE,
    ahead: int = 4,
    make: Make | None = None,
    place: Callable[[Batch], Batch] | None = None,
) -> Iterator[Batch]:
    """The batches of one epoch from the `start`-th on, in the plan's order, up to `ahead` of them made early.

    As many threads make them as the plan's config has `workers`, which changes no batch: by `make` where it is given,
    else by `collate`. `place` (pinning, say) runs there too.
    """

    def made(planned: Planned) -> Batch:
        batch = make(planned, epoch=epoch, shard=shard) if make else collate(store, planned=planned, shard=shard)
        return place(batch) if place else batch

    return prefetch(plan.batches(epoch, start=start), make=made, workers=plan.config.workers, ahead=ahead)


def prefetch(items: Iterable[Item], *, make: Callable[[Item], Result], workers: int, ahead: int) -> Iterator[Result]:
    """`make` of each item, in their order, up to `ahead` of them made early by threads; their errors are raised here.

    Without workers everything is made when it is asked for.
    """
    if workers == 0:
        yield from map(make, items)
        return
    shelf = _Shelf(iter(items), make, room=max(ahead, workers))
    threads = [threading.Thread(target=shelf.fill, name="calque-batches", daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    try:
        yield from shelf.read()
    finally:
        shelf.stop()
        for thread in threads:
            thread.join()


class _Shelf(Generic[Item, Result]):
    """Results in numbered places: threads draw items in turn and make them side by side, one reader reads in order."""

    def __init__(self, items: Iterator[Item], make: Callable[[Item], Result], *, room: int) -> None:
        self._items, self._make, self._room = items, make, room
        self._drawing = threading.Lock()  # a generator is for one thread at a time
        self._changed = threading.Condition()
        self._made: dict[int, Result] = {}
        self._errors: dict[int, BaseException] = {}
        self._drawn = self._read = 0
        self._end: int | None = None  # the place after the last one
        self._is_stopped = False

    def read(self) -> Iterator[Result]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._read in {*self._made, *self._errors, self._end})
                if self._read in self._errors:
                    raise self._errors[self._read]
                if self._read == self._end:
                    return
                made = self._made.pop(self._read)
                self._read += 1
                self._changed.notify_all()
            yield made

    def fill(self) -> None:
        """What each thread does until nothing is left to draw, or nobody reads any more."""
        while (drawn := self._draw()) is not None:
            number, item = drawn
            try:
                made = self._make(item)
            except BaseException as error:  # the reader raises it
                self._fail(number, error)
            else:
                with self._changed:
                    self._made[number] = made
                    self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def _draw(self) -> tuple[int, Item] | None:
        """The next item and its place, as soon as there is room for it."""
        with self._drawing:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over or self._drawn - self._read < self._room)
                if self._is_over:
                    return None
                number = self._drawn
                self._drawn += 1
            try:
                return number, next(self._items)
            except StopIteration:
                with self._changed:
                    self._end = number
                    self._changed.notify_all()
            except BaseException as error:
                self._fail(number, error)
        return None

    @property
    def _is_over(self) -> bool:
        return self._is_stopped or self._end is not None or bool(self._errors)

    def _fail(self, number: int, error: BaseException) -> None:
        with self._changed:
            self._errors[number] = error
            self._changed.notify_all()


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
