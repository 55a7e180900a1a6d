"""An ordered map over several processes that holds only a few items at a time."""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any, TypeVar

from calque.errors import DataError

Item = TypeVar("Item")
Result = TypeVar("Result")

_PARALLEL = 2 << 20  # bytes of corpus, plain or compressed, from which starting processes pays off


def workers_for(files: Iterable[Path], *, requested: int | None) -> int:
    """The number of processes for the files: `requested`, else the number of processors; one for a small corpus.

    There is nothing in between: memory grows with the number of processes, but must not grow with the corpus.
    """
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    size = sum(path.stat().st_size for path in files if path.is_file())
    return requested or processors if size >= _PARALLEL else 1


def ordered_map(
    make: Callable[[], Callable[[Item], Result]], *, items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """`make()(item)` for each item, in order; each process calls `make` once. Results do not depend on `workers`."""
    if workers <= 1:
        yield from map(make(), items)
        return
    # Spawned, because the fork of a process with threads (torch, sentencepiece) may deadlock.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_initialise, initargs=(make,))
    pending: deque[Future[Result]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(_call, item))
            if len(pending) > 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        raise DataError(
            "a data preparation process ended unexpectedly: if memory was short, use fewer workers; "
            "a script that prepares data with several workers must do so under `if __name__ == '__main__':`"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


_function: Callable[[Any], Any]


def _initialise(make: Callable[[], Callable[[Any], Any]]) -> None:
    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    _function = make()


def _call(item: Any) -> Any:
    return _function(item)


def _exit_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
