"""What commands tell a person, also when the terminal has gone."""

import os
import pty
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import typer

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


@pytest.mark.parametrize("buffering", [-1, 1])
def test_a_standard_output_that_is_full_is_called_so_and_fails_once(
    capsys: pytest.CaptureFixture[str], buffering: int
) -> None:
    def show() -> None:
        typer.echo("a result")

    with Path("/dev/full").open("w", buffering=buffering) as full, redirect_stdout(full):
        with pytest.raises(SystemExit) as end:
            told(show)
        full.flush()
    assert (end.value.code, capsys.readouterr().err) == (1, "calque: standard output: No space left on device\n")


def test_a_disk_that_is_full_leaves_what_was_saved(capsys: pytest.CaptureFixture[str]) -> None:
    def save() -> None:
        with Path("/dev/full").open("wb", buffering=0) as full:
            full.write(b"weights")

    with pytest.raises(SystemExit) as end:
        told(save)
    said = "calque: cannot go on: No space left on device; what was saved before is intact\n"
    assert (end.value.code, capsys.readouterr().err) == (1, said)
