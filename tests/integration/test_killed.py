"""kill -9 at random moments, SIGTERM, and then --resume: the same bytes as a run that nobody touched (P1, P2, P4)."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from calque.config import check, to_toml
from calque.experiment import Experiment, resume, train
from calque.training.checkpoints import scheduled_steps
from calque.training.journal import read_journal
from tests.conftest import Values, calque, environment, toy_corpus, toy_values

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unplotted")]

# Long enough to be hit, with an interval for everything that shares no factor with the others.
LONG = (
    "training.steps=60",
    "training.log_every=7",
    "training.validate_every=13",
    "training.checkpoint_every=11",
    "training.average=3",
)


def config_file(folder: Path, family: str) -> Path:
    """A config in which nothing is left to be chosen."""
    values: Values = toy_values(toy_corpus(folder / "corpus", pairs=200), family, *LONG)
    file = folder / "config.toml"
    file.write_text(to_toml(check(Experiment, values, origin="test")), encoding="utf-8")
    return file


def digests(run: Path) -> dict[str, str]:
    last = run / "checkpoints" / f"step-{scheduled_steps(run / 'checkpoints')[-1]}"
    files = [run / "model" / "weights.safetensors", run / "metrics.jsonl", run / "samples.txt"]
    files += [last / "weights.safetensors", last / "optimiser.safetensors"]
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def start(*arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "calque", "train", *map(str, arguments)]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for(process: subprocess.Popen[bytes], condition: Path, *, lines: int) -> None:
    """Until the file has so many lines, or the process is over."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if condition.exists() and condition.read_bytes().count(b"\n") >= lines:
            return
        time.sleep(0.005)


def end(process: subprocess.Popen[bytes], number: signal.Signals) -> tuple[int, str]:
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    return process.returncode, err.decode()


@pytest.mark.parametrize("family", ["luong", "transformer"])
def test_kill_at_a_random_moment_twice_and_resume(family: str, tmp_path: Path, seed: int) -> None:
    file = config_file(tmp_path, family)
    whole, run = tmp_path / "whole", tmp_path / "run"
    train(file, run=whole, quiet=True)
    generator = random.Random(f"{seed}/{family}")
    marks = sorted(generator.sample(range(1, 9), 2))  # lines of metrics that are there before the blow
    arguments: list[object] = ["--config", file, "--run", run]
    for mark in marks:
        delay = generator.uniform(0, 0.08)
        print(f"{family}: kill -9 {delay:.3f} s after line {mark} of metrics.jsonl")
        process = start(*arguments)
        wait_for(process, run / "metrics.jsonl", lines=mark)
        time.sleep(delay)
        code, _ = end(process, signal.SIGKILL)
        assert code in (-signal.SIGKILL, 0)
        arguments = ["--resume", run]
    resume(run, quiet=True)
    assert digests(run) == digests(whole)
    lines = [(line["kind"], line["step"], "averaged" in line) for line in read_journal(run / "metrics.jsonl")]
    assert len(set(lines)) == len(lines)
    assert not list(run.rglob("*.tmp-*"))


def test_kill_before_the_first_checkpoint_and_while_data_is_prepared(tmp_path: Path, seed: int) -> None:
    """There is nothing to go on from yet; a resume begins again, and ends the same."""
    file = config_file(tmp_path, "plain")
    whole, run = tmp_path / "whole", tmp_path / "run"
    train(file, run=whole, quiet=True)
    process = start("--config", file, "--run", run)
    wait_for(process, run / "config.toml", lines=1)
    delay = random.Random(seed).uniform(0, 0.2)
    print(f"kill -9 {delay:.3f} s after config.toml")
    time.sleep(delay)
    end(process, signal.SIGKILL)
    resume(run, quiet=True)
    assert digests(run) == digests(whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_polite_signal_saves_and_exits_with_75(number: signal.Signals, tmp_path: Path) -> None:
    file = config_file(tmp_path, "bahdanau")
    whole, run = tmp_path / "whole", tmp_path / "run"
    train(file, run=whole, quiet=True)
    process = start("--config", file, "--run", run)
    wait_for(process, run / "metrics.jsonl", lines=2)
    code, err = end(process, number)
    assert code == 75, err
    assert "Traceback" not in err
    assert f"go on with: calque train --resume {run}" in err
    resume(run, quiet=True)
    assert digests(run) == digests(whole)


def test_a_second_trainer_is_refused_while_the_first_is_at_work(tmp_path: Path) -> None:
    file, run = config_file(tmp_path, "plain"), tmp_path / "run"
    process = start("--config", file, "--run", run, "training.steps=100000")
    try:
        wait_for(process, run / "metrics.jsonl", lines=1)
        os.kill(process.pid, signal.SIGSTOP)
        answer = calque("train", "--resume", run)
        assert answer.code == 2
        assert f"pid {process.pid} is training in this folder" in answer.err
    finally:
        end(process, signal.SIGKILL)
