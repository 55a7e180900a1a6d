"""What newcomers stumbled over: each message leads on."""

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from calque.training import reporting
from calque.training.reporting import Pace, Reporter
from tests.conftest import toy_corpus


def test_messages_that_lead_on(command, trained: Path, tmp_path: Path) -> None:
    corpus = toy_corpus(tmp_path / "corpus", pairs=30)
    latin = tmp_path / "latin"
    latin.write_bytes("für\n".encode("latin1") * 30)
    commas = tmp_path / "pairs.csv"
    commas.write_text("a,b\n" * 30, encoding="utf-8")
    tabs = tmp_path / "pairs.tsv"
    tabs.write_text("a\tb\n" * 30, encoding="utf-8")
    source, target = corpus["source"], corpus["target"]
    for arguments, message in (
        (["train", source, target], f"write --source {source} --target {target}"),
        (["train", source], "files must be named by options"),
        (["train", "--resume", trained.with_name("ru")], f"no such folder; did you mean {trained}?"),
        (["train", "--source", source, "--target", latin], "iconv -f latin1 -t utf-8"),
        (["train", "--source", source, "--target", target, "training.stpes=3"], "did you mean 'training.steps'?"),
        (["train", "--tsv", commas], "the line contains commas: is it CSV?"),
        (["train", "--csv", tabs, "--no-header"], "the line contains tabs: is it TSV?"),
        (["translate", trained, "a b c"], "echo 'a b c' | calque"),
        (["translate", trained, "nbest=3"], "write --nbest 3"),
        (["translate", trained, "--forbid", "very"], "expected a file with one word per line"),
        (["translate", trained, "--require", "very"], "use --terms VALUE"),
        (["inspect", trained, "a b", "--target", "b", "--forbid-word", "b"], "with --target there is no search"),
    ):
        answer = command(*arguments)
        assert answer.code == 2
        assert message in answer.err


def test_data_check_has_a_verdict(command, tmp_path: Path) -> None:
    corpus = toy_corpus(tmp_path / "corpus", pairs=60)
    options = ["--source", corpus["source"], "--target", corpus["target"], "text.kind=words"]
    answer = command("data", "check", *options)
    assert answer.code == 0
    assert answer.err.endswith("training would accept these corpora\n")


def test_piped_training_shows_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(reporting, "terminal", lambda: Console(file=stream, soft_wrap=True))
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with Reporter(None, steps=100) as reporter:
        reporter.begin(10)
        for step in (20, 30, 40):
            now[0] += 35
            reporter.pace(Pace(step, 0, 2.5, 0.001, 1000))
    lines = stream.getvalue().splitlines()
    assert lines == ["step 30 of 100 · loss 2.500 · 1,000 tokens/s · padding 0% · about 4 min left"]
