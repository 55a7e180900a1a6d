"""Ordered maps over several processes that hold only a few items at a time."""

import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any, Self, TypeVar

from calque.errors import DataError

Item = TypeVar("Item")
Result = TypeVar("Result")

_PARALLEL = 16 << 20  # bytes of corpus, plain or compressed, from which starting processes pays off


def workers_for(files: Iterable[Path], *, requested: int | None) -> int:
    """The number of processes for the files: one if they are small, else `requested` or the number of processors.

    The number does not otherwise depend on the size of the corpus, so that memory, which grows with the number of
    processes, does not grow with the corpus.
    """
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    size = sum(path.stat().st_size for path in files if path.is_file())
    return requested or processors if size >= _PARALLEL else 1


class Processes:
    """A pool of processes for one or more ordered maps. It starts with the first map and ends with the context."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._maps = 0
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(self, make: Callable[[], Callable[[Item], Result]], *, items: Iterable[Item]) -> Iterator[Result]:
        """Yields `make()(item)` for each item, in order; each process calls `make` once.

        Results do not depend on the number of processes.
        """
        if self._workers <= 1:
            yield from map(make(), items)
            return
        if self._pool is None:  # spawned: the fork of a process with threads (torch, sentencepiece) may deadlock
            self._pool = ProcessPoolExecutor(self._workers, mp_context=get_context("spawn"), initializer=_follow_parent)
        self._maps += 1
        call = partial(_call, self._maps, pickle.dumps(make))  # as bytes, which a process reads once per map
        pending: deque[Future[Result]] = deque()
        try:
            for item in items:
                pending.append(self._pool.submit(call, item))
                if len(pending) > 2 * self._workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool:
            raise DataError(
                "a data preparation process ended unexpectedly: if memory was short, use fewer workers; "
                "a script that prepares data with several workers must do so under `if __name__ == '__main__':`"
            ) from None


def ordered_map(
    make: Callable[[], Callable[[Item], Result]], *, items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """The results of a single `Processes.map`, with a pool of processes of its own."""
    with Processes(workers) as processes:
        yield from processes.map(make, items=items)


def _follow_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it
    threading.Thread(target=_exit_with_parent, daemon=True).start()


_current: tuple[int, Callable[[Any], Any]] = (0, repr)  # the number of a map, and its function in this process


def _call(number: int, make: bytes, item: Any) -> Any:
    global _current
    if _current[0] != number:
        _current = number, pickle.loads(make)()
    return _current[1](item)


def _exit_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
