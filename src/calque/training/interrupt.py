"""Stop requests: after the first Ctrl-C or SIGTERM the run finishes its step and saves; the second stops at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_request(announce: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Yields a function that returns whether a stop was requested; `announce` is called when it is.

    The first signal restores the previous handlers, so that a second one stops at once. Outside the main thread, where
    Python allows no handlers, a stop is never requested.
    """
    requested = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield requested.is_set
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        requested.set()
        restore()
        with suppress(Exception):  # a closed terminal, or one in the middle of a line, must not prevent saving
            announce()

    previous = {number: signal.signal(number, handle) for number in SIGNALS}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    try:
        yield requested.is_set
    finally:
        restore()
