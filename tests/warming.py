"""Processes that have everything imported and fork: importing torch takes longer than what most commands do."""

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from tests.conftest import environment

ROOT = Path(__file__).parents[1]


def root_environment() -> dict[str, str]:
    """For subprocesses: as `environment`, with the repository's modules to be found."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**environment(), "PYTHONPATH": path}


class WarmProcess:
    """`python ARGUMENTS`, which answers each line of JSON with one; it ends with its input."""

    def __init__(self, *arguments: str, env: dict[str, str]) -> None:
        command = [sys.executable, *arguments]
        self._process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, request: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the warm process has ended"
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)


def be_fork(work: Callable[[], int], *, out: Path, err: Path) -> NoReturn:
    """Ends this process, a fork, with what `work` gives; what it says goes to files."""
    code = 1
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell lets its background jobs ignore
    try:
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
