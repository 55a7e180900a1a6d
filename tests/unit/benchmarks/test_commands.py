"""Both commands from beginning to end, on stand-ins for Calque whose cost is known."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks import decode, source_trees, train
from benchmarks.errors import ContenderError
from benchmarks.trainers import read_metrics
from tests.unit.benchmarks.stand_in import write_stand_in

ROOT = Path(__file__).parents[3]
Main = Callable[[list[str]], int]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This tree: 0.04 CPU seconds per step, 0.002 per line and hypothesis."""
    root = write_stand_in(tmp_path / "here", step=0.04, line=0.002, git=True)
    monkeypatch.setattr(source_trees, "REPOSITORY", root)
    return root


def results(main: Main, *words: object, folder: Path) -> dict[str, Any]:
    path = folder / "results.json"
    assert main([*map(str, words), "--json", str(path)]) == 0
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return values


@pytest.mark.usefixtures("here")
def test_training_speeds_are_those_of_the_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A third as fast, and its own commit; start-up and preparation are not in the figures."""
    slow = write_stand_in(tmp_path / "slow", step=0.12)
    options = ("--rounds", 1, "--steps", 1, 11, "--tokens", 60)
    values = results(train.main, "--against", slow, "--against", "HEAD", *options, folder=tmp_path)
    medians = {name: ratio["median"] for name, ratio in values["ratios"].items()}
    assert medians == pytest.approx({str(slow): 3.0, "HEAD": 1.0}, rel=0.3)
    assert values["speeds"]["here"] == pytest.approx([60 / 0.04], rel=0.3)
    shown = capsys.readouterr().out
    assert "target tokens / CPU-s" in shown
    assert "25.0%" in shown
    assert "| HEAD | " in shown


@pytest.mark.usefixtures("here")
def test_one_contender_may_have_other_batches(tmp_path: Path) -> None:
    values = results(
        train.main,
        *("--against", "HEAD", "--work", "language-model", "--rounds", 1, "--steps", 1, 5),
        *("--tokens", 50, "--tokens-of", "HEAD=100", "seed=3"),
        folder=tmp_path,
    )
    tokens = {name: rounds[0]["long"]["tokens"] for name, rounds in values["rounds"].items()}
    assert tokens == {"here": 5 * 50, "HEAD": 5 * 100}
    assert values["rounds"]["here"][0]["long"]["store"] == 1000


@pytest.mark.usefixtures("here")
def test_decoding_speeds_are_those_of_the_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A third as fast with other bytes; the commit gives the same. Beam 4 costs four times as much as greedy."""
    slow = write_stand_in(tmp_path / "slow", line=0.006, mark="!")
    options = ("--rounds", 1, "--lines", 10, 60, "--beams", 1, 4, "--steps", 1, "--model", tmp_path / "model")
    values = results(decode.main, "--against", slow, "--against", "HEAD", *options, folder=tmp_path)
    greedy, beam = values["searches"]
    for search in (greedy, beam):
        assert search["outputs"] == {"here": "–", str(slow): "6 of 60 lines differ", "HEAD": "same bytes"}
        assert search["tokens"]["here"] == [10 * 3, 60 * 3]
    medians = {name: ratio["median"] for name, ratio in beam["ratios"].items()}
    assert medians == pytest.approx({str(slow): 3.0, "HEAD": 1.0}, rel=0.3)
    assert beam["speeds"]["here"] == pytest.approx([1 / 0.008], rel=0.3)
    shown = capsys.readouterr().out
    assert f"Beam 4: line 8 is 'TEST 7' by here and 'TEST 7!' by {slow}." in shown
    assert "| HEAD, greedy | " in shown


MISTAKES: dict[str, tuple[Main, list[str], str]] = {
    "no such revision": (train.main, ["--against", "nowhere"], "neither a folder that holds src/calque nor"),
    "no such contender": (train.main, ["--tokens-of", "it=3"], "no contender 'it'; choose from here"),
    "not a number": (train.main, ["--tokens-of", "here=-3"], "'-3' is not a positive whole number"),
    "steps that fall": (train.main, ["--steps", "9", "9"], "--steps 9 9: the second number must be larger"),
    "no corpus": (train.main, ["--corpus", "elsewhere"], "--corpus elsewhere: no such folder"),
    "no folder for JSON": (train.main, ["--json", "no/where.json"], "--json no/where.json: no such folder"),
    "too few lines": (decode.main, ["--lines", "2", "999"], "pairs has only 600 test and training lines"),
    "no such trainer": (decode.main, ["--trained-by", "it"], "--trained-by it: no such contender; choose from here"),
    "too short": (train.main, ["--steps", "1", "2", "--tokens", "0"], "expected a whole number of at least 1"),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_message_and_exit_code_2(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    main, words, message = MISTAKES[name]
    try:
        code: Any = main(words)
    except SystemExit as end:
        code = end.code
    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert message in shown.err


@pytest.mark.usefixtures("here")
def test_a_contender_that_fails_is_named_with_its_last_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = write_stand_in(tmp_path / "broken", broken="train")
    assert train.main(["--against", str(broken), "--rounds", "1", "--steps", "1", "3"]) == 1
    shown = capsys.readouterr().err
    assert f"benchmarks: {broken}: exit code 1: " in shown
    assert shown.endswith("  it is broken\n")


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_leaves_no_process_and_no_folder(here: Path, tmp_path: Path, kind: signal.Signals) -> None:
    """The stand-in would train for minutes."""
    slow, temporary = write_stand_in(tmp_path / "slow", step=100), tmp_path / "temporary"
    temporary.mkdir()
    code = "import signal, sys; from pathlib import Path; from benchmarks import source_trees, train; "
    code += "signal.signal(signal.SIGINT, signal.default_int_handler); "  # a background job begins with SIGINT ignored
    code += f"source_trees.REPOSITORY = Path({str(here)!r}); sys.exit(train.main(['--against', {str(slow)!r}]))"
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE) as command:
        assert command.stderr is not None
        while b"preparing " + str(slow).encode() not in command.stderr.readline():
            pass
        deadline = time.monotonic() + 60
        while not (runs := running(slow)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert runs
        command.send_signal(kind)
        _, said = command.communicate(timeout=60)
        assert b"stopped; nothing was saved" in said
        assert command.returncode == 130
    assert not running(slow)
    assert not list(temporary.iterdir())


def running(tree: Path) -> list[Path]:
    """The processes whose sources are in a tree."""
    processes = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"PYTHONPATH={tree}/src" in (process / "environ").read_text(errors="replace"):
                processes.append(process)
    return processes


def test_padding_is_weighted_by_tokens_and_other_lines_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [
        {"kind": "train", "tokens": 100, "padding": 0.1},
        {"kind": "valid", "tokens": 999, "padding": 0.9},
        {"kind": "train", "tokens": 300, "padding": 0.3},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert read_metrics(path) == (400, pytest.approx(0.25))
    path.write_text('{"kind":"valid","loss":1}\n', encoding="utf-8")
    with pytest.raises(ContenderError, match="no line of kind train counts tokens"):
        read_metrics(path)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("command", [train.main, decode.main])
def test_a_gpu_is_asked_for_where_there_is_none(command: Main, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["--device", "cuda"]) == 2
    assert "--device cuda: torch finds no GPU that it can use on this machine" in capsys.readouterr().err
