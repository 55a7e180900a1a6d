"""Lines in groups that are translated together."""

import queue
import threading
from collections.abc import Iterator
from itertools import islice

from calque.data.lines import Line
from calque.translator.translating import WINDOW


def windows(lines: Iterator[Line], *, live: bool, skip: int = 0) -> Iterator[list[Line]]:
    """Lines from the `skip`-th on: WINDOW of them from a file; from a pipe whatever is there, so nobody waits."""
    ready: queue.Queue[Line | Exception | None] = queue.Queue(maxsize=2 * WINDOW)

    def read() -> None:
        try:
            for line in islice(lines, skip, None):
                ready.put(line)
        except Exception as error:  # raised again by who reads the queue
            ready.put(error)
        ready.put(None)

    threading.Thread(target=read, daemon=True).start()
    window: list[Line] = []
    while True:
        must_wait = not window or (not live and len(window) < WINDOW)
        try:
            line = ready.get(block=must_wait)
        except queue.Empty:
            line = None
            yield window
            window = []
            continue
        if line is None or isinstance(line, Exception):
            if window:
                yield window
            if line is not None:
                raise line
            return
        window.append(line)
        if len(window) >= WINDOW:
            yield window
            window = []
