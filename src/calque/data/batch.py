"""What training asks of a batch, whatever the task, and batches made some threads ahead of who reads them."""

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Generic, Protocol, Self, TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batch(Protocol):
    """Rows of a store, padded. Its loss is a sum over `weight` terms: target tokens, words, frames."""

    @property
    def rows(self) -> int:
        """Rows, those included that only fill a static shape."""
        ...

    @property
    def weight(self) -> float:
        """What the loss of these rows is a sum over."""
        ...

    @property
    def shared_weight(self) -> float:
        """The weight of all ranks' rows, known without communication."""
        ...

    @property
    def positions(self) -> int:
        """Positions on all padded axes, padding included."""
        ...

    @property
    def filled(self) -> int:
        """Those that are not padding."""
        ...

    def to(self, device: torch.device) -> Self:
        """The same batch on a device; lengths stay on the host."""
        ...

    def pin(self) -> Self:
        """The same batch in pinned memory, from where a copy to a GPU does not wait."""
        ...

    def split(self, parts: int) -> list[Self]:
        """The same rows in that many batches, cut as `row_slices` says; `shared_weight` stays."""
        ...


def row_slices(rows: int, *, parts: int) -> list[slice]:
    """Rows in `parts` slices of nearly equal size, or in as many as there are rows."""
    count = min(parts, rows)
    edges = [round(place * rows / count) for place in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def prefetch(items: Iterable[Item], *, make: Callable[[Item], Result], workers: int, ahead: int) -> Iterator[Result]:
    """`make` of each item, in their order, up to `ahead` of them made early by threads; their errors are raised here.

    Without workers everything is made when it is asked for.
    """
    if workers == 0:
        yield from map(make, items)
        return
    shelf = _Prefetched(iter(items), make, room=max(ahead, workers))
    threads = [threading.Thread(target=shelf.fill, name="calque-batches", daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    try:
        yield from shelf.read()
    finally:
        shelf.stop()
        for thread in threads:
            thread.join()


class _Prefetched(Generic[Item, Result]):
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
