"""The scheduler of the recipes, with real processes that take no time."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[3] / "recipes"
sys.path.insert(0, str(FOLDER))
fleet = importlib.import_module("fleet")
sys.path.remove(str(FOLDER))

WAITS = """
import pathlib, signal, sys, time
def stop(number, frame):
    pathlib.Path(sys.argv[1]).touch()
    sys.exit(75)
signal.signal(signal.SIGTERM, stop)
if pathlib.Path(sys.argv[1]).exists():
    sys.exit(0)
pathlib.Path(sys.argv[2]).touch()
time.sleep(60)
"""


def job(folder: Path, label: str, *codes: str, **more: Any) -> Any:
    """A job whose stages run these lines of Python."""
    stages = [
        fleet.Stage(f"stage {number}", lambda code=code: [sys.executable, "-c", code], folder / f"{label}.{number}")
        for number, code in enumerate(codes)
    ]
    return fleet.Job(label, folder / label, tuple(stages), **more)


def writes(path: Path, text: str) -> str:
    return f"open({str(path)!r}, 'a').write({text!r})"


def test_stages_follow_each_other_and_are_not_done_again(tmp_path: Path) -> None:
    said = tmp_path / "said"
    jobs = [
        job(tmp_path, "a", writes(said, "1"), writes(said, "2")),
        job(tmp_path, "b", writes(said, "3"), needs=("a",)),
    ]
    assert fleet.sail(jobs, side_by_side=2, seconds=None) == 0
    assert said.read_text() == "123"
    assert fleet.sail(jobs, side_by_side=2, seconds=None) == 0
    assert said.read_text() == "123"
    (tmp_path / "a.1").unlink()
    assert fleet.sail(jobs, side_by_side=2, seconds=None) == 0
    assert said.read_text() == "1232"


def test_what_is_not_wanted_is_left_out_and_not_waited_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Whether it is wanted may take a while to be known."""
    said = tmp_path / "said"
    wanted = {
        "loser": lambda: False if "winner" in said.read_text() else None,
        "winner": lambda: said.read_text() == "first",
    }
    jobs = [
        job(tmp_path, "last", writes(said, " last"), needs=("winner", "loser")),
        *(job(tmp_path, name, writes(said, f" {name}"), needs=("a",), is_wanted=one) for name, one in wanted.items()),
        job(tmp_path, "a", writes(said, "first")),
    ]
    assert fleet.sail(jobs, side_by_side=1, seconds=None) == 0
    assert said.read_text() == "first winner last"
    assert "not wanted, as others were better: loser" in capfd.readouterr().err


def test_a_failure_is_named_and_what_needs_it_is_left(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said = tmp_path / "said"
    jobs = [
        job(tmp_path, "bad", "raise SystemExit('no such corpus')"),
        job(tmp_path, "after", writes(said, "never"), needs=("bad",)),
        job(tmp_path, "other", writes(said, "done")),
    ]
    assert fleet.sail(jobs, side_by_side=1, seconds=None) == 1
    told = capfd.readouterr().err
    assert "bad FAILED with 1" in told and "no such corpus" in told and "1 left: after" in told
    assert said.read_text() == "done"


def test_when_time_is_up_all_save_and_the_same_command_goes_on(tmp_path: Path) -> None:
    """The first process waits for ever; asked to stop it saves, and then it has nothing left to do."""
    saved, begun = tmp_path / "saved", tmp_path / "begun"
    command = [sys.executable, "-c", WAITS, str(saved), str(begun)]
    stage = fleet.Stage("waits", lambda: command, tmp_path / "done")
    waiting = fleet.Job("waiting", tmp_path / "waiting", (stage,))
    made = fleet.Fleet([waiting], side_by_side=1)
    made.start()
    while not begun.exists():
        assert made.workers[0].process.poll() is None
    made.signal(15)
    made.workers[0].process.wait()
    made.look(stopping=True)
    assert (made.left, made.failed, saved.exists(), waiting.is_finished) == ([waiting], [], True, False)
    assert fleet.sail([waiting], side_by_side=1, seconds=30.0) == 0


def test_no_time_starts_nothing(tmp_path: Path) -> None:
    assert fleet.sail([job(tmp_path, "a", "pass")], side_by_side=1, seconds=0.0) == fleet.INTERRUPTED
    assert not (tmp_path / "a.0").exists()


def test_needs_that_nobody_makes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no job makes: corpus"):
        fleet.Fleet([job(tmp_path, "a", "pass", needs=("corpus",))], side_by_side=1)
    with pytest.raises(ValueError, match="two jobs"):
        fleet.Fleet([job(tmp_path, "a", "pass"), job(tmp_path, "a", "pass")], side_by_side=1)


def test_the_dearest_chain_starts_first(tmp_path: Path) -> None:
    costs = {"slow": (3.0, ()), "teacher": (1.0, ()), "student": (2.5, ("teacher",)), "quick": (0.1, ())}
    jobs = [job(tmp_path, name, "pass", cost=cost, needs=needs) for name, (cost, needs) in costs.items()]
    assert [each.label for each in fleet.longest_chain_first(jobs)] == ["teacher", "slow", "student", "quick"]
