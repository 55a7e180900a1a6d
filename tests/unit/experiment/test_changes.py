"""Settings that change when a run is resumed, and those that cannot."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Answer, toy_corpus, toy_values
from tests.unit.experiment.frames_task import frames_task

import calque
from calque.config import flat, override, read_toml, values_to_toml
from calque.errors import ConfigError
from calque.experiment import Experiment, resume, train
from calque.experiment.changes import FIXED, changeable
from calque.experiment.settings import OwnExperiment
from calque.training.journal import read_journal

pytestmark = pytest.mark.usefixtures("unplotted")


@pytest.fixture
def corpus(tmp_path: Path) -> dict[str, Path]:
    return toy_corpus(tmp_path / "corpus")


@pytest.fixture
def short(corpus: dict[str, Path], tmp_path: Path) -> Path:
    """A run of four steps."""
    return train(toy_values(corpus, "plain", "training.steps=4"), run=tmp_path / "short", quiet=True).folder


def test_a_run_that_is_made_longer_ends_as_one_that_was_that_long(
    short: Path, corpus: dict[str, Path], tmp_path: Path, command: Callable[..., Answer]
) -> None:
    answer = command("train", "--resume", short, "training.steps=8")
    assert answer.code == 0, answer.err
    assert "note: training.steps was 4 when the run was started and is 8 now" in answer.err
    whole = train(toy_values(corpus, "plain", "training.steps=8"), run=tmp_path / "whole", quiet=True).folder
    ends = [run / "checkpoints" / "step-8" / "weights.safetensors" for run in (short, whole)]
    assert ends[0].read_bytes() == ends[1].read_bytes()
    assert (short / "config.toml").read_bytes() == (whole / "config.toml").read_bytes()
    assert "training.steps=N" in command("train", "--resume", short).err  # how to train longer still


def test_validation_and_learning_rate_can_change(short: Path) -> None:
    changes = ["training.steps=7", "training.validate_every=1", "training.optimiser.learning_rate=0.5"]
    resume(short, settings=[*changes, "training.schedule.kind=constant", "training.log_every=1"], quiet=True)
    lines = [line for line in read_journal(short / "metrics.jsonl") if line["step"] > 4]
    assert [line["step"] for line in lines if line["kind"] == "valid" and "averaged" not in line] == [5, 6, 7]
    assert lines[-1]["step"] == 7
    assert next(line["learning_rate"] for line in lines if line["step"] == 6) == 0.5


@pytest.mark.parametrize(
    "change",
    [
        *("seed=4", "model.encoder.width=8", "text.kind=characters", "data.maximum_length=7", "task.kind=tagging"),
        *("training.optimiser.kind=sgd", "training.precision=float64", "training.ema=0.9", "training.warm_start=x"),
        "training.objective.method.kind=r-drop",
    ],
)
def test_what_the_state_depends_on_cannot_change(short: Path, change: str, command: Callable[..., Answer]) -> None:
    before = (short / "config.toml").read_bytes()
    answer = command("train", "--resume", short, "training.steps=9", change)
    assert answer.code == 2, answer
    key = change.partition("=")[0]
    assert f"\n  {key}: " in answer.err
    assert "all fixed settings: seed, task, data, text, model, training.objective" in answer.err
    assert "settings that can be changed: training.steps, " in answer.err and "training.schedule.*" in answer.err
    assert (short / "config.toml").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("training.step=9", "training.step: unknown key; did you mean 'training.steps'?"),
        ("training.steps=none", "training.steps: input should be a valid integer"),
        ("training.metric=accuracy", "training.metric = 'accuracy' is not one of"),
        ("training.optimiser.momentum=0.5", "momentum = 0.5 is used only with kind = 'sgd'"),
        ("steps", "'steps' is not an override"),
        ("training.average=0", ""),
    ],
)
def test_a_change_is_checked_before_anything_is_written(short: Path, change: str, message: str) -> None:
    before = (short / "config.toml").read_bytes()
    if not message:
        resume(short, settings=[change, "model.encoder.width=16"], quiet=True)  # a value that it has already
        assert (short / "config.toml").read_bytes() == before.replace(b"average = 2", b"average = 0")
        return
    with pytest.raises(ConfigError) as refused:
        resume(short, settings=[change], quiet=True)
    assert message in str(refused.value)
    assert (short / "config.toml").read_bytes() == before


def test_a_run_with_settings_without_effect_can_still_be_changed(short: Path) -> None:
    """Earlier versions accepted such settings; the user would have to repair a config that he did not write."""
    config = short / "config.toml"
    config.write_text(values_to_toml(override(read_toml(config), ["training.optimiser.momentum=0.5"])), "utf-8")
    assert resume(short, settings=["training.steps=5"], quiet=True).summary.step == 5
    with pytest.raises(ConfigError, match=r"training\.steps: input should be a valid integer"):
        resume(short, settings=["training.steps=none"], quiet=True)


def test_every_key_is_either_fixed_or_changeable(short: Path) -> None:
    patterns = [*FIXED, *(key.removesuffix(".*") for key in changeable(Experiment))]
    for key, _ in flat(read_toml(short / "config.toml")):
        matching = [name for name in patterns if key == name or key.startswith((f"{name}.", f"{name}["))]
        assert matching, key
    assert not set(FIXED) & set(changeable(Experiment))
    assert "search.*" in changeable(Experiment) and "search.*" not in changeable(OwnExperiment)


def test_a_run_of_ones_own_task_can_be_made_longer(tmp_path: Path) -> None:
    config = {"training": {"steps": 2, "device": "cpu", "threads": 1, "batch": {"tokens": 60}}}
    run = calque.train(config, task=frames_task(dropout=0.0), run=tmp_path / "run", quiet=True).folder
    longer = calque.resume(run, settings=["training.steps=4"], task=frames_task(dropout=0.0), quiet=True)
    assert longer.summary.step == 4
    with pytest.raises(ConfigError, match=r"\n  seed: .*\n.*all fixed settings: seed, task, training.objective"):
        calque.resume(run, settings=["seed=9"], task=frames_task(dropout=0.0), quiet=True)
