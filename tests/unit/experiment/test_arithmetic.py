"""The version of a run's arithmetic: new runs have the latest, and every run keeps the one it was started with."""

from pathlib import Path

import pytest
from tests.conftest import toy_corpus, toy_values
from tests.unit.experiment.frames_task import frames_task

import calque
from calque.config import read_toml
from calque.errors import ConfigError
from calque.experiment import resume, train
from calque.folders.upgrades import upgrade_training
from calque.layers.arithmetic import LATEST

pytestmark = pytest.mark.usefixtures("unplotted")


def run_of(folder: Path, *settings: str) -> Path:
    corpus = toy_corpus(folder.parent / f"corpus-{folder.name}")
    return train(toy_values(corpus, "transformer", *settings), run=folder, quiet=True).folder


def forget_version(run: Path) -> None:
    """Makes a run one that an earlier release started."""
    text = (run / "config.toml").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("arithmetic")]
    assert len(lines) == len(text.splitlines()) - 1
    (run / "config.toml").write_text("".join(lines), encoding="utf-8")


def weights(run: Path, step: int) -> bytes:
    return (run / "checkpoints" / f"step-{step}" / "weights.safetensors").read_bytes()


def test_a_new_run_has_the_latest_version(tmp_path: Path) -> None:
    assert read_toml(run_of(tmp_path / "run", "training.steps=1") / "config.toml")["training"]["arithmetic"] == LATEST


def test_a_run_without_a_version_continues_with_the_first(tmp_path: Path) -> None:
    whole = run_of(tmp_path / "whole", "training.steps=8", "training.arithmetic=1")
    latest = run_of(tmp_path / "latest", "training.steps=8")
    assert weights(whole, 8) != weights(latest, 8)
    earlier = run_of(tmp_path / "earlier", "training.steps=4", "training.arithmetic=1")
    forget_version(earlier)
    resume(earlier, settings=["training.steps=8"], quiet=True)
    assert weights(earlier, 8) == weights(whole, 8)
    assert read_toml(earlier / "config.toml")["training"]["arithmetic"] == 1


def test_the_version_of_a_run_cannot_change(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", "training.steps=2", "training.arithmetic=1")
    with pytest.raises(ConfigError, match=r"training\.arithmetic: the checkpoints depend on it"):
        resume(run, settings=["training.arithmetic=2", "training.steps=4"], quiet=True)
    text = (run / "config.toml").read_text(encoding="utf-8")
    text = text.replace("arithmetic = 1\n", "arithmetic = 2\n").replace("\nsteps = 2\n", "\nsteps = 4\n")
    (run / "config.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"training\.arithmetic was 1 and is 2 now"):
        resume(run, quiet=True)


def test_an_earlier_run_of_a_users_own_task_continues_with_the_first(tmp_path: Path) -> None:
    config = {"training": {"steps": 2, "threads": 1, "device": "cpu", "batch": {"tokens": 60}}}
    run = calque.train(config, task=frames_task(), run=tmp_path / "run", quiet=True)
    assert run.config.training.arithmetic == LATEST
    for path in (run.folder / "checkpoints").glob("*"):
        assert f'"training.arithmetic": "{LATEST}"' in (path / "state.json").read_text(encoding="utf-8")
    first = {"training": {**config["training"], "arithmetic": 1}}
    other = calque.train(first, task=frames_task(), run=tmp_path / "other", quiet=True)
    forget_version(other.folder)
    again = calque.resume(other.folder, task=frames_task(), settings=["training.steps=4"], quiet=True)
    assert again.config.training.arithmetic == 1


def test_a_config_that_is_not_one_stays_so() -> None:
    assert upgrade_training({"training": 3}) == {"training": 3}
    assert upgrade_training({}) == {"training": {"arithmetic": 1}}
    assert upgrade_training({"training": {"arithmetic": 2}}) == {"training": {"arithmetic": 2}}
