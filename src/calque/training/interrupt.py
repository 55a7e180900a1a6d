"""Stop requests: after the first Ctrl-C, SIGTERM or SIGHUP the run finishes its step and saves.

A second Ctrl-C or SIGTERM stops at once. A second SIGHUP does not: a closed terminal often sends it twice, from the
shell and from the kernel.
"""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

HANGUP: int | None = getattr(signal, "SIGHUP", None)  # not on Windows
SIGNALS: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM, *(() if HANGUP is None else (HANGUP,)))


@contextmanager
def stop_request(announce: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Yields a function that returns whether a stop was requested. `announce` is called once, at the request.

    The first signal restores the previous handlers of Ctrl-C and SIGTERM, so that a second one stops at once. A SIGHUP
    that is ignored, as under nohup, stays ignored. Outside the main thread, where Python allows no handlers, a stop is
    never requested.
    """
    requested = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield requested.is_set
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        if requested.is_set():
            return
        requested.set()
        restore(number for number in previous if number != HANGUP)
        with suppress(Exception):  # a closed terminal, or one in the middle of a line, must not prevent saving
            announce()

    handled = [number for number in SIGNALS if number != HANGUP or signal.getsignal(number) != signal.SIG_IGN]
    previous = {number: signal.signal(number, handle) for number in handled}

    def restore(numbers: Iterable[int]) -> None:
        for number in numbers:
            signal.signal(number, previous[number])

    try:
        yield requested.is_set
    finally:
        restore(previous)
