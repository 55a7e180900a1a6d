"""What commands tell a person, also when the terminal has gone."""

import os
import pty
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr

import pytest

from calque.commands.main import told
from calque.commands.progress import counting, preparing
from calque.errors import ConfigError


@contextmanager
def terminal() -> Iterator[Callable[[], None]]:
    """Standard error is a terminal (no fixture: pytest sets its own anew for every test); closes it."""
    reader, number = pty.openpty()
    with os.fdopen(number, "w", buffering=1, encoding="utf-8") as stream, redirect_stderr(stream):
        yield lambda: os.close(reader)


def test_a_bar_whose_terminal_goes_away_stops_no_work() -> None:
    with terminal() as close, counting("lines", total=3) as count, preparing() as report:
        count(1)
        report("reading", 0, 2)
        close()
        count(1)
        report("encoding", 1, 2)
        print("what others still say", file=sys.stderr)


def test_a_mistake_that_nobody_reads_has_its_exit_code() -> None:
    def work() -> None:
        raise ConfigError("no such key")

    with terminal() as close, pytest.raises(SystemExit) as end:
        close()
        told(work)
    assert end.value.code == ConfigError("").code


def test_a_mistake_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        raise ConfigError("no such key")

    monkeypatch.setenv("RANK", "2")
    with pytest.raises(SystemExit):
        told(work)
    assert capsys.readouterr().err == "calque, rank 2: no such key\n"
