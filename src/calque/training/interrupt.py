"""Asked to stop: the first Ctrl-C or SIGTERM lets the step end and saves, the second stops at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_request(announce: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Gives a function that tells whether a stop was asked for; `announce` is called when it is.

    After the first signal the handlers from before are back, so that a second one works at once. Outside the main
    thread, where Python allows no handlers, nothing is ever asked.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        asked.set()
        restore()
        with suppress(Exception):  # a terminal that is gone or in the middle of a line must not keep a run from saving
            announce()

    before = {number: signal.signal(number, handle) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    try:
        yield asked.is_set
    finally:
        restore()
