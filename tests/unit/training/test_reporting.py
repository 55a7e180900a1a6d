"""Progress reports: the terminal and the log."""

import errno
import os
import pty
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from calque.training.reporting import Pace, Reporter
from calque.training.write_errors import CLOSED, ignore_write_errors


def test_lines_go_to_the_log_and_to_standard_error_without_a_bar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Reporter(tmp_path / "log.txt", steps=10) as reporter:
        reporter.say("one [bold]", "two é")
        reporter.begin(0)
        reporter.advance(1)
        reporter.pace(Pace(1, 0, 2.5, 1e-3, 1234.5, padding=0.04))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "one [bold]\ntwo é\n"  # no markup, and no bar without a terminal
    log = (tmp_path / "log.txt").read_text(encoding="utf-8").splitlines()
    assert [line.split(" ", 1)[1] for line in log[:2]] == ["one [bold]", "two é"]
    assert (
        log[2].split(" ", 1)[1]
        == "step 1 · epoch 1 · loss 2.500 · 1,234 tokens/s · padding 4% · learning rate 1.00e-03"
    )


def _written(terminal: int) -> bytes:
    """All that was written to a terminal whose other side is closed."""
    parts = []
    with suppress(OSError):  # the end of what was written
        while part := os.read(terminal, 1 << 16):
            parts.append(part)
    return b"".join(parts)


def test_the_bar_shows_loss_speed_padding_and_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal; the remaining 96 steps, at three seconds each, take 4 minutes 48 seconds."""
    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "140")
    clock = [0.0]
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with Reporter(None, steps=100) as reporter:
            monkeypatch.setattr(reporter._bar, "get_time", lambda: clock[0])
            reporter.begin(0)
            for step in range(1, 5):
                clock[0] += 3.0
                reporter.advance(step)
            reporter.pace(Pace(4, 0, 2.5, 1e-3, 1234.5, padding=0.04, skipped=2))
    output = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", _written(ours).decode())
    os.close(ours)
    assert "step 4/100 · loss 2.500 · 1,234 tokens/s · padding 4% · 2 skipped · 04:48 left" in output


def test_a_long_line_is_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(None, steps=1) as reporter:
        reporter.say("x" * 500)
    assert capsys.readouterr().err == "x" * 500 + "\n"


def test_quiet_is_quiet_but_keeps_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(tmp_path / "log.txt", steps=10, quiet=True) as reporter:
        reporter.say("hush")
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "log.txt").read_text(encoding="utf-8").endswith(" hush\n")


@pytest.mark.parametrize("ends", [os.pipe, pty.openpty], ids=["pipe", "terminal"])
def test_the_log_continues_when_the_terminal_is_closed(
    ends: Callable[[], tuple[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, number = ends()
    with os.fdopen(number, "w", encoding="utf-8") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        with Reporter(tmp_path / "log.txt", steps=10) as reporter:
            reporter.say("before")
            reporter.begin(0)
            assert os.read(reader, 6) == b"before"
            os.close(reader)
            reporter.say("after")
            reporter.advance(1)
            reporter.pace(Pace(1, 0, 2.5, 1e-3, 1234.5))
            reporter.say("later")
        stream.write("output of others")
        stream.flush()
    log = (tmp_path / "log.txt").read_text(encoding="utf-8").splitlines()
    assert [line.split(" ", 1)[1].split(" · ")[0] for line in log] == ["before", "after", "step 1", "later"]


def test_only_the_given_errors_are_ignored() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as stream:
        with pytest.raises(OSError) as raised, ignore_write_errors(stream, errors=CLOSED):
            stream.write("x")
            stream.flush()
        assert raised.value.errno == errno.ENOSPC
        with ignore_write_errors(stream):
            stream.flush()
