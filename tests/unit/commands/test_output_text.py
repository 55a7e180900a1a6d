"""Messages of commands, even when the terminal has gone."""

import os
import pty
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import typer

from calque.commands.main import report_errors
from calque.commands.progress import counting, preparing
from calque.errors import ConfigError


@contextmanager
def terminal() -> Iterator[Callable[[], bytes]]:
    """Makes standard error a terminal and yields a function that closes it and returns what was shown so far.

    Not a fixture, as pytest replaces standard error for every test.
    """
    reader, number = pty.openpty()
    with os.fdopen(number, "w", buffering=1, encoding="utf-8") as stream, redirect_stderr(stream):

        def close() -> bytes:
            shown = os.read(reader, 1 << 16) if select.select([reader], [], [], 0)[0] else b""
            os.close(reader)
            return shown

        yield close


def test_a_bar_whose_terminal_disappears_does_not_stop_the_work() -> None:
    with terminal() as close, counting("lines", total=3) as count, preparing() as report:
        count(1)
        report("reading", 0, 2)
        assert b"lines" in close()  # so that there was a bar
        count(1)
        report("encoding", 1, 2)
        print("a message of other code", file=sys.stderr)


def test_a_mistake_has_its_exit_code_without_a_terminal() -> None:
    def work() -> None:
        raise ConfigError("no such key")

    with terminal() as close, pytest.raises(SystemExit) as end:
        close()
        report_errors(work)
    assert end.value.code == ConfigError("").code


def test_a_mistake_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        raise ConfigError("no such key")

    monkeypatch.setenv("RANK", "2")
    with pytest.raises(SystemExit):
        report_errors(work)
    assert capsys.readouterr().err == "calque, rank 2: no such key\n"


@pytest.mark.parametrize("buffering", [-1, 1])
def test_a_full_standard_output_is_named_and_fails_once(capsys: pytest.CaptureFixture[str], buffering: int) -> None:
    def show() -> None:
        typer.echo("a result")

    with Path("/dev/full").open("w", buffering=buffering) as full, redirect_stdout(full):
        with pytest.raises(SystemExit) as end:
            report_errors(show)
        full.flush()
    assert (end.value.code, capsys.readouterr().err) == (1, "calque: standard output: No space left on device\n")


def test_a_full_disk_leaves_what_was_saved(capsys: pytest.CaptureFixture[str]) -> None:
    def save() -> None:
        with Path("/dev/full").open("wb", buffering=0) as full:
            full.write(b"weights")

    with pytest.raises(SystemExit) as end:
        report_errors(save)
    message = "calque: cannot continue: No space left on device; what was saved before is intact\n"
    assert (end.value.code, capsys.readouterr().err) == (1, message)
