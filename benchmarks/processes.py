"""Runs processes and measures their cost: CPU seconds, wall time and peak memory, as the kernel accounts for them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.errors import ContenderError

LOG_LINES = 20  # of a failed process, shown
STOPS = (signal.SIGINT, signal.SIGTERM)


class Usage(NamedTuple):
    """The cost of one process and the children it waited for."""

    cpu: float  # seconds, user and system
    wall: float  # seconds
    peak: int  # bytes: the largest resident set of any of these processes


def run_measured(
    command: Sequence[str | Path], *, environment: Mapping[str, str], folder: Path, log: Path | None = None
) -> Usage:
    """Runs a command in `folder`, its output in `log`, and returns its cost; raises a ContenderError if it fails.

    Linux starts a child's peak memory at the resident size of its parent process, so benchmarks do not import torch.
    """
    log = log or folder / "log.txt"
    started = time.perf_counter()
    with log.open("wb") as output:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # until there is a process that can be ended
        try:
            process = subprocess.Popen(
                command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            raise
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)  # it was waited for without Popen's knowledge
    if process.returncode:
        raise ContenderError(_failure(command, code=process.returncode, log=log))
    unit = 1 if sys.platform == "darwin" else 1024
    return Usage(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * unit)


def _failure(command: Sequence[str | Path], *, code: int, log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
    return "\n".join([f"exit code {code}: {' '.join(map(str, command))}", *(f"  {line}" for line in lines)])
