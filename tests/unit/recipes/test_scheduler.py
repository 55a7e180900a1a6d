"""The scheduler of the recipes, with real processes that take no time."""

import sys
from pathlib import Path
from typing import Any

import pytest
from recipes.runner.scheduler import INTERRUPTED, Job, Scheduler, Stage, longest_chain_first, run_jobs

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


def job(folder: Path, label: str, *codes: str, **more: Any) -> Job:
    """A job whose stages run these lines of Python."""
    stages = [
        Stage(f"stage {number}", lambda code=code: [sys.executable, "-c", code], folder / f"{label}.{number}")
        for number, code in enumerate(codes)
    ]
    return Job(label, folder / label, tuple(stages), **more)


def writes(path: Path, text: str) -> str:
    return f"open({str(path)!r}, 'a').write({text!r})"


def test_stages_follow_each_other_and_are_not_done_again(tmp_path: Path) -> None:
    written = tmp_path / "written"
    jobs = [
        job(tmp_path, "a", writes(written, "1"), writes(written, "2")),
        job(tmp_path, "b", writes(written, "3"), needs=("a",)),
    ]
    assert run_jobs(jobs, slots=2, seconds=None) == 0
    assert written.read_text() == "123"
    assert run_jobs(jobs, slots=2, seconds=None) == 0
    assert written.read_text() == "123"
    (tmp_path / "a.1").unlink()
    assert run_jobs(jobs, slots=2, seconds=None) == 0
    assert written.read_text() == "1232"


def test_what_is_not_wanted_is_left_out_and_not_waited_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Whether it is wanted may take a while to be known."""
    written = tmp_path / "written"
    decisions = {
        "loser": lambda: False if "winner" in written.read_text() else None,
        "winner": lambda: written.read_text() == "first",
    }
    jobs = [
        job(tmp_path, "last", writes(written, " last"), needs=("winner", "loser")),
        *(
            job(tmp_path, name, writes(written, f" {name}"), needs=("a",), is_wanted=decide)
            for name, decide in decisions.items()
        ),
        job(tmp_path, "a", writes(written, "first")),
    ]
    assert run_jobs(jobs, slots=1, seconds=None) == 0
    assert written.read_text() == "first winner last"
    assert "not selected on validation: loser" in capfd.readouterr().err


def test_a_failure_is_named_and_what_needs_it_is_left(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "written"
    jobs = [
        job(tmp_path, "bad", "raise SystemExit('no such corpus')"),
        job(tmp_path, "after", writes(written, "never"), needs=("bad",)),
        job(tmp_path, "other", writes(written, "done")),
    ]
    assert run_jobs(jobs, slots=1, seconds=None) == 1
    report = capfd.readouterr().err
    assert "bad: FAILED with 1" in report and "no such corpus" in report and "1 left: after" in report
    assert written.read_text() == "done"


def test_when_time_is_up_all_save_and_the_same_command_goes_on(tmp_path: Path) -> None:
    """The first process waits for ever; asked to stop it saves, and then it has nothing left to do."""
    saved, begun = tmp_path / "saved", tmp_path / "begun"
    command = [sys.executable, "-c", WAITS, str(saved), str(begun)]
    stage = Stage("waits", lambda: command, tmp_path / "done")
    waiting = Job("waiting", tmp_path / "waiting", (stage,))
    scheduler = Scheduler([waiting], slots=1)
    scheduler.start_ready()
    while not begun.exists():
        assert scheduler.workers[0].process.poll() is None
    scheduler.signal(15)
    scheduler.workers[0].process.wait()
    scheduler.collect_ended(stopping=True)
    assert (scheduler.stopped, scheduler.failed, saved.exists(), waiting.is_finished) == ([waiting], [], True, False)
    assert run_jobs([waiting], slots=1, seconds=30.0) == 0


def test_no_time_starts_nothing(tmp_path: Path) -> None:
    assert run_jobs([job(tmp_path, "a", "pass")], slots=1, seconds=0.0) == INTERRUPTED
    assert not (tmp_path / "a.0").exists()


def test_needs_that_nobody_makes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="do not exist: corpus"):
        Scheduler([job(tmp_path, "a", "pass", needs=("corpus",))], slots=1)
    with pytest.raises(ValueError, match="two jobs have the same label"):
        Scheduler([job(tmp_path, "a", "pass"), job(tmp_path, "a", "pass")], slots=1)


def test_the_dearest_chain_starts_first(tmp_path: Path) -> None:
    costs = {"slow": (3.0, ()), "teacher": (1.0, ()), "student": (2.5, ("teacher",)), "quick": (0.1, ())}
    jobs = [job(tmp_path, name, "pass", cost=cost, needs=needs) for name, (cost, needs) in costs.items()]
    assert [ordered.label for ordered in longest_chain_first(jobs)] == ["teacher", "slow", "student", "quick"]
