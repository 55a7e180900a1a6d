"""What a person reads of a run."""

from pathlib import Path

import pytest

from calque.training.reporting import Pace, Reporter, samples_text


def test_lines_go_to_the_log_and_to_standard_error_without_a_bar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Reporter(tmp_path / "log.txt", steps=10) as reporter:
        reporter.say("one [bold]", "two é")
        reporter.begin(0)
        reporter.advance(1)
        reporter.pace(Pace(1, 0, 2.5, 1e-3, 1234.5))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "one [bold]\ntwo é\n"  # no markup, and no bar where nobody watches
    log = (tmp_path / "log.txt").read_text(encoding="utf-8").splitlines()
    assert [line.split(" ", 1)[1] for line in log[:2]] == ["one [bold]", "two é"]
    assert "loss 2.500" in log[2]


def test_a_long_line_is_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(None, steps=1) as reporter:
        reporter.say("x" * 500)
    assert capsys.readouterr().err == "x" * 500 + "\n"


def test_quiet_is_quiet_but_keeps_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(tmp_path / "log.txt", steps=10, quiet=True) as reporter:
        reporter.say("hush")
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "log.txt").read_text(encoding="utf-8").endswith(" hush\n")


def test_samples_show_source_reference_and_translation() -> None:
    text = samples_text(7, [("今天", "today", "to day"), ("b", "c", "d")])
    assert text.startswith("step 7\n\n")
    rows = [line.split(maxsplit=1) for line in text.splitlines()[2:] if line]
    assert rows == [
        ["source", "今天"],
        ["reference", "today"],
        ["translation", "to day"],
        ["source", "b"],
        ["reference", "c"],
        ["translation", "d"],
    ]
