"""The interface that the batches of all tasks share, and `prefetch`, which prepares batches in threads."""

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Generic, Protocol, Self, TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batch(Protocol):
    """Padded rows of prepared data. The loss is a sum over `weight` terms, such as target tokens or words."""

    @property
    def rows(self) -> int:
        """The number of rows, including padding rows, which fill a batch up to a static shape."""
        ...

    @property
    def weight(self) -> float:
        """The number of terms in the loss of these rows."""
        ...

    @property
    def shared_weight(self) -> float:
        """The weight of the whole batch over all ranks, which every rank knows without communication."""
        ...

    @property
    def positions(self) -> int:
        """The number of positions in the batch, such as source and target positions, padding included."""
        ...

    @property
    def filled(self) -> int:
        """The number of positions that are not padding."""
        ...

    def to(self, device: torch.device) -> Self:
        """The same batch on a device. Lengths stay on the CPU."""
        ...

    def pin(self) -> Self:
        """The same batch in pinned memory, from which a copy to a GPU is asynchronous."""
        ...

    def split(self, parts: int) -> list[Self]:
        """The same rows in `parts` smaller batches, cut as by `row_slices`; each keeps the batch's `shared_weight`."""
        ...


def row_slices(rows: int, *, parts: int) -> list[slice]:
    """`parts` slices of nearly equal size that cover all rows; one slice per row if there are fewer rows."""
    count = min(parts, rows)
    edges = [round(index * rows / count) for index in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def prefetch(items: Iterable[Item], *, make: Callable[[Item], Result], workers: int, ahead: int) -> Iterator[Result]:
    """Yields `make(item)` for each item, in order, computed by threads up to `ahead` items in advance.

    If `make` raises an error, so does the request for that result. Without workers, results are computed on request.
    """
    if workers == 0:
        yield from map(make, items)
        return
    queue = _Prefetched(iter(items), make, capacity=max(ahead, workers))
    threads = [threading.Thread(target=queue.fill, name="calque-batches", daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    try:
        yield from queue.read()
    finally:
        queue.stop()
        for thread in threads:
            thread.join()


class _Prefetched(Generic[Item, Result]):
    """The state that the threads of `prefetch` share with the consumer, which receives the results in order."""

    def __init__(self, items: Iterator[Item], make: Callable[[Item], Result], *, capacity: int) -> None:
        self._items, self._make, self._capacity = items, make, capacity
        self._items_lock = threading.Lock()  # a generator is for one thread at a time
        self._changed = threading.Condition()
        self._results: dict[int, Result] = {}
        self._errors: dict[int, BaseException] = {}
        self._next_item = self._next_result = 0
        self._end: int | None = None  # the number of items, once it is known
        self._is_stopped = False

    def read(self) -> Iterator[Result]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._next_result in {*self._results, *self._errors, self._end})
                if self._next_result in self._errors:
                    raise self._errors[self._next_result]
                if self._next_result == self._end:
                    return
                result = self._results.pop(self._next_result)
                self._next_result += 1
                self._changed.notify_all()
            yield result

    def fill(self) -> None:
        """The loop of each worker thread: computes results until no items are left or the consumer has stopped."""
        while (numbered_item := self._take()) is not None:
            number, item = numbered_item
            try:
                result = self._make(item)
            except BaseException as error:  # the reader raises it
                self._fail(number, error)
            else:
                with self._changed:
                    self._results[number] = result
                    self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def _take(self) -> tuple[int, Item] | None:
        """Waits until another result can be stored; returns the next item and its number, or None if none is left."""
        with self._items_lock:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over or self._next_item - self._next_result < self._capacity)
                if self._is_over:
                    return None
                number = self._next_item
                self._next_item += 1
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
