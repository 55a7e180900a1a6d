"""A map over several processes that keeps the order and holds only a few items at a time."""

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

_WORTH = 2 << 20  # bytes of corpus, plain or gzip, for which starting processes pays


def workers_for(files: Iterable[Path], *, asked: int | None) -> int:
    """How many processes to use for the files: as many as asked (or as there are processors), one for little work.

    It is all or one: memory goes with the number of processes, and should not go with the size of the corpus.
    """
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    size = sum(path.stat().st_size for path in files if path.is_file())
    return asked or processors if size >= _WORTH else 1


def ordered_map(
    make: Callable[[], Callable[[Item], Result]], *, items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """`make()` of each item, in order; each process calls `make` once. The results do not depend on `workers`."""
    if workers <= 1:
        yield from map(make(), items)
        return
    # Spawned, because a fork of a process that has threads (torch, sentencepiece) may never wake up.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin, initargs=(make,))
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(_call, item))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise DataError(
            "a process that prepares data was ended from outside: was memory short? Fewer workers need less; "
            "a script that prepares data with several workers must do so under `if __name__ == '__main__':`"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


_work: Callable[[Any], Any]


def _begin(make: Callable[[], Callable[[Any], Any]]) -> None:
    global _work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _work = make()


def _call(item: Any) -> Any:
    return _work(item)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
