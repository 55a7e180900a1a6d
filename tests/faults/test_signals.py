"""SIGTERM and Ctrl-C: saved and out within one step and one save, exit code 75; twice, and it is out at once (P4)."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from calque.training.journal import read_journal
from tests.conftest import environment
from tests.faults.conftest import Scenes, Tally
from tests.faults.runs import (
    SHORT,
    Ended,
    Scene,
    Warm,
    config_file,
    differences,
    families,
    fate,
    killing,
    litter,
    sound_steps,
)

pytestmark = pytest.mark.slow


def signalled(warm: Warm, run: Path, *, at: int, number: int) -> Ended:
    """A resume that gets a signal at a call of the file system."""
    return warm("train", "--resume", run, fault={"kind": "signal", "root": str(run), "at": at, "number": number})


def call_of(scene: Scene, text: str, *, nth: int = 1) -> int:
    """The number of the `nth` call that contains this text, as the layer counts."""
    return [k for k, call in enumerate(scene.calls, start=1) if text in call][nth - 1]


@families
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_polite_signal_saves_this_step_and_exits_with_75(
    family: str, number: signal.Signals, warm: Warm, scene: Scenes, tmp_path: Path, tally: Tally
) -> None:
    """While the line of step 5 is written, at which no save is due: it is saved all the same, and nothing after it."""
    original = scene(family)
    run = original.copy(tmp_path / "run")
    third = call_of(original, "write metrics.jsonl", nth=4)  # steps 3, 3 (validation), 4, 5
    ended = signalled(warm, run, at=third, number=number)
    assert ended.code == 75, ended.err
    assert "stopping after this step is finished and saved" in ended.err
    assert f"saved at step 5; resume with: calque train --resume {run}" in ended.err
    assert "Traceback" not in ended.err
    assert [line["step"] for line in read_journal(run / "metrics.jsonl")][-1] == 5
    assert list(sound_steps(run))[-1] == 5
    wrong = fate(warm, run, original.whole, history=False)
    tally(f"{number.name}, saved and resumed", family, tried=1, wrong=wrong)


SPOTS = ("mkdir checkpoints/step-4", "half checkpoints/step-4", "rename checkpoints/step-4", "rename model", "exchange")


@families
@pytest.mark.parametrize("spot", SPOTS)
def test_a_signal_in_the_middle_of_a_save_lets_it_end(
    family: str, spot: str, warm: Warm, scene: Scenes, tmp_path: Path, tally: Tally
) -> None:
    original = scene(family)
    run = original.copy(tmp_path / "run")
    ended = signalled(warm, run, at=call_of(original, spot), number=signal.SIGTERM)
    if ended.code == 0:  # the last step was done: there was nothing to interrupt
        assert spot == "exchange"
        assert differences(run, original.whole) == []
    else:
        assert ended.code == 75, ended.err
        assert fate(warm, run, original.whole, history=False) == []
    tally("SIGTERM in the middle of a save", family, tried=1, wrong=[])


@families
@pytest.mark.parametrize("spot", ["half checkpoints/step-4", "fsync checkpoints/step-4", "rename checkpoints/step-4"])
def test_a_second_ctrl_c_is_out_at_once_without_damage(
    family: str, spot: str, warm: Warm, scene: Scenes, tmp_path: Path, tally: Tally
) -> None:
    """The first comes at step 3's line; the second, in the middle of the interrupt's save, ends it there."""
    original = scene(family)
    run = original.copy(tmp_path / "run")
    fault = {
        "kind": "signal",
        "root": str(run),
        "number": signal.SIGINT,
        "at": call_of(original, "write metrics.jsonl"),
    }
    spot = spot.replace("step-4", "step-3")
    ended = warm("train", "--resume", run, fault={**fault, "again": spot})
    assert ended.code == 130, ended.err
    assert "Traceback" not in ended.err
    assert litter(run) == []
    assert "saved at step" not in ended.err
    assert "stopped immediately" in ended.err
    assert list(sound_steps(run))[-1] in (2, 3)
    wrong = fate(warm, run, original.whole, history=False)
    tally("a second Ctrl-C in the middle of a save", family, tried=1, wrong=wrong)


def test_a_signal_before_anything_was_saved_loses_nothing_else(warm: Warm, scene: Scenes, tmp_path: Path) -> None:
    """Killed while the data is prepared, or interrupted in the first step."""
    original, run = scene("luong2015"), tmp_path / "run"
    config = original.whole.parent / "config.toml"
    assert warm("train", "--config", config, "--run", run, fault=killing(run, at=25)).was_killed
    assert not (run / "checkpoints").exists()
    ended = signalled(warm, run, at=call_of(original, "write metrics.jsonl") + 10, number=signal.SIGTERM)
    assert ended.code in (75, -signal.SIGTERM)
    assert warm("train", "--resume", run).code == 0
    assert differences(run, original.whole, history=False) == []


def start(*arguments: object) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "calque", "train", *map(str, arguments)]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for(process: "subprocess.Popen[bytes]", file: Path, *, lines: int) -> None:
    """Waits until the file has that many lines, or the process has ended."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if file.exists() and file.read_bytes().count(b"\n") >= lines:
            return
        time.sleep(0.005)


def test_a_process_as_users_start_it(warm: Warm, scene: Scenes, tmp_path: Path) -> None:
    """`python -m calque train`, SIGTERM from outside, a second trainer, kill -9, and the lock is free again."""
    original, run = scene("luong2015"), tmp_path / "run"
    config = config_file(tmp_path, "luong2015", *SHORT, "training.steps=100000", "training.patience=0")
    process = start("--config", config, "--run", run)
    try:
        wait_for(process, run / "metrics.jsonl", lines=3)
        process.send_signal(signal.SIGSTOP)
        refused = warm("train", "--resume", run)
        assert refused.code == 2
        assert f"pid {process.pid} is training in this folder" in refused.err
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 75, err
    assert f"resume with: calque train --resume {run}" in err.decode()
    ends: dict[str, Any] = {"training.steps": ("steps = 100000\n", "steps = 6\n")}
    if max(sound_steps(run)) < 6:  # then it can end as the whole one did
        text = (run / "config.toml").read_text(encoding="utf-8").replace(*ends["training.steps"])
        (run / "config.toml").write_text(text, encoding="utf-8")
        assert warm("train", "--resume", run).code == 0
        wrong = differences(run, original.whole, history=False)
        assert [name for name in wrong if name not in ("config.toml", "run.json")] == []  # both tell of the edit
