"""A custom task trains and resumes as those of the package do, which know nothing of it."""

import hashlib
import json
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from safetensors.torch import load_file
from tests.conftest import Answer
from tests.unit.experiment.frames_task import FramesBatch, FramesCopy, FramesModel, frames_store, frames_task
from torch import nn

import calque
from calque.config import read_toml
from calque.data.store import store_in_memory
from calque.errors import ConfigError, FolderError
from calque.experiment import own_task
from calque.tasks.interfaces import Carry, Loss
from calque.training.journal import read_journal

CONFIG: dict[str, Any] = {
    "seed": 5,
    "training": {
        "steps": 40,
        "validate_every": 20,
        "checkpoint_every": 10,
        "log_every": 5,
        "keep": 9,
        "threads": 1,
        "device": "cpu",
        "batch": {"tokens": 60},
        "schedule": {"warmup": 5},
        "optimiser": {"learning_rate": 0.05},
    },
}

pytestmark = pytest.mark.usefixtures("unplotted")


def weights(run: Path, step: int) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / f"step-{step}" / "weights.safetensors")


def test_its_config_is_given_as_values(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="config must be a dict with the keys seed and training"):
        calque.train("config.toml", task=frames_task(), run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_only_a_run_can_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=r"not a run folder: it has no config\.toml"):
        calque.resume(tmp_path, task=frames_task(), quiet=True)
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_not_started_over_that_of_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process started between the check of the folder and the writing of the config."""
    (tmp_path / "config.toml").write_text("seed = 5\n", encoding="utf-8")
    monkeypatch.setattr("calque.experiment.own_task.new_run_folder", lambda _folder: tmp_path)
    with pytest.raises(FolderError, match="has just started a run here"):
        calque.train(CONFIG, task=frames_task(), run=tmp_path, quiet=True)
    assert (tmp_path / "config.toml").read_text(encoding="utf-8") == "seed = 5\n"


def test_it_learns_and_keeps_its_best_model(tmp_path: Path) -> None:
    run = calque.train(CONFIG, task=frames_task(), run=tmp_path / "run", quiet=True)
    assert run.summary.best is not None and run.summary.best.values["accuracy"] > 95
    assert (run.folder / "model" / "note.txt").read_bytes() == b"kept"
    lines = read_journal(run.folder / "metrics.jsonl")
    assert {line["kind"] for line in lines} == {"train", "valid"}
    assert (run.folder / "samples.txt").read_text(encoding="utf-8").startswith("step 20\n\nframes\n")
    assert json.loads((run.folder / "run.json").read_text())["metrics"]["accuracy"] == ["higher", 0.0]


def test_a_resumed_run_ends_with_the_same_bytes(tmp_path: Path) -> None:
    uninterrupted = calque.train(CONFIG, task=frames_task(), run=tmp_path / "whole", quiet=True).folder
    half = tmp_path / "half"
    shutil.copytree(uninterrupted, half)
    for step in (30, 40):
        shutil.rmtree(half / "checkpoints" / f"step-{step}")
    assert calque.resume(half, task=frames_task(), quiet=True).summary.step == 40
    for name, values in weights(uninterrupted, 40).items():
        assert torch.equal(values, weights(half, 40)[name])
    assert (uninterrupted / "metrics.jsonl").read_bytes() == (half / "metrics.jsonl").read_bytes()


def test_batches_are_split_when_memory_runs_out(tmp_path: Path) -> None:
    class Tight(FramesCopy):
        def loss(self, model: nn.Module, batch: FramesBatch, *, step: int, carry: Carry | None = None) -> Loss:
            if step == 3 and batch.rows > 2:
                raise torch.OutOfMemoryError
            return super().loss(model, batch, step=step, carry=carry)

    run = calque.train(CONFIG, task=frames_task(task=Tight()), run=tmp_path / "run", quiet=True)
    assert read_journal(run.folder / "history.jsonl")[0]["step"] == 3


def test_a_task_whose_batches_cannot_be_split_is_reported(tmp_path: Path) -> None:
    class Whole(FramesCopy):
        divisible = False

        def loss(self, model: nn.Module, batch: FramesBatch, *, step: int, carry: Carry | None = None) -> Loss:
            raise torch.OutOfMemoryError

    with pytest.raises(calque.TrainingError, match="needs whole batches"):
        calque.train(CONFIG, task=frames_task(task=Whole()), run=tmp_path / "run", quiet=True)


def test_missing_columns_unknown_metrics_and_changed_data_are_rejected(tmp_path: Path) -> None:
    own = frames_task()
    lacking = own._replace(train=store_in_memory({"symbols": frames_rows()}))
    with pytest.raises(calque.ConfigError, match="reads columns that the prepared data does not have: frames"):
        calque.train(CONFIG, task=lacking, run=tmp_path / "a", quiet=True)
    with pytest.raises(calque.ConfigError, match="'bleu' is not one of accuracy, loss"):
        calque.train({"training": {"metric": "bleu"}}, task=own, run=tmp_path / "b", quiet=True)
    run = calque.train(CONFIG, task=frames_task(), run=tmp_path / "c", quiet=True).folder
    with pytest.raises(calque.DataError, match="column frames"):
        calque.resume(run, task=own._replace(train=frames_store(200, seed=9)), quiet=True)


def test_its_model_folder_holds_the_settings_of_the_run(tmp_path: Path) -> None:
    run = calque.train(CONFIG, task=frames_task(), run=tmp_path / "run", quiet=True).folder
    settings = read_toml(run / "model" / "config.toml")
    assert settings == read_toml(run / "config.toml")
    assert settings["seed"] == 5 and settings["training"]["steps"] == 40
    assert settings["training"]["label_smoothing"] == 0, "the task computes its own loss"


def test_where_its_own_code_is_needed_that_is_said(tmp_path: Path, command: Callable[..., Answer]) -> None:
    own = frames_task()
    run = calque.train(CONFIG, task=own, run=tmp_path / "run", quiet=True).folder
    for folder in (run, run / "model"):
        with pytest.raises(calque.FolderError, match="the model of a custom task, which Calque cannot build") as no:
            calque.load(folder)
    statement = str(no.value)[str(no.value).index("model.load_state_dict") :]
    built = FramesModel()
    eval(statement, {"model": built, "safetensors": safetensors})
    assert all(
        torch.equal(value, dict(built.named_parameters())[name])
        for name, value in load_file(run / "model" / "weights.safetensors").items()
    )
    for arguments in (["train", "--resume", run], ["average", run, "--output", tmp_path / "mean"]):
        answer = command(*arguments)
        assert answer.code == 2 and f"{run} is a run of a custom task" in answer.err, answer.err
    with pytest.raises(calque.ConfigError, match=r"calque\.resume\('.*run', task=OwnTask\(\.\.\.\)\)"):
        calque.resume(run)
    shutil.rmtree(run / "model")
    with pytest.raises(calque.FolderError, match=r"no model here yet.* `calque\.resume\("):
        calque.load(run)
    (run / "config.toml").write_text('[task]\nkind = "tagging"\n', encoding="utf-8")
    with pytest.raises(calque.ConfigError, match="the run of a built-in task"):
        calque.resume(run, task=own)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("label_smoothing", 0.1),
        ("objective", {"method": {"kind": "minimum-risk"}}),
        ("subwords", {"kind": "unigram"}),
        ("warm_start", "runs/1"),
    ],
)
def test_settings_of_translation_are_rejected(name: str, value: object, tmp_path: Path) -> None:
    config = {**CONFIG, "training": {**CONFIG["training"], name: value}}
    with pytest.raises(calque.ConfigError, match=f"training.{name}: no effect on a task of your own"):
        calque.train(config, task=frames_task(), run=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_settings_that_turn_translation_off_and_earlier_configs_are_accepted(tmp_path: Path) -> None:
    off = {"label_smoothing": 0.0, "warm_start": None, "subwords": {"kind": "fixed"}}
    config = {**CONFIG, "training": {**CONFIG["training"], "steps": 10, **off}}
    run = calque.train(config, task=frames_task(), run=tmp_path / "run", quiet=True).folder
    written = (run / "config.toml").read_text(encoding="utf-8")
    earlier = written.replace("label_smoothing = 0.0", "label_smoothing = 0.1")
    assert earlier != written
    (run / "config.toml").write_text(earlier, encoding="utf-8")
    assert calque.resume(run, task=frames_task(), quiet=True).summary.step == 10
    (run / "config.toml").write_text(earlier.replace("smoothing = 0.1", "smoothing = 0.2"), encoding="utf-8")
    with pytest.raises(calque.ConfigError, match="label_smoothing"):
        calque.resume(run, task=frames_task(), quiet=True)


def test_a_batch_size_that_is_not_determined_is_rejected(tmp_path: Path) -> None:
    config = {"training": {"batch": {"tokens": "auto"}}}
    with pytest.raises(calque.ConfigError, match=r"batch\.tokens = 'auto'"):
        calque.train(config, task=frames_task(), run=tmp_path / "run", quiet=True)


@pytest.mark.parametrize("chunk", [1, 100, 1 << 12])
def test_columns_are_fingerprinted_in_chunks(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    store = frames_store(2_000, seed=1)
    expected = {
        f"column {name}": hashlib.sha256(column.values.tobytes() + column.lengths.tobytes()).hexdigest()
        for name, column in store.columns.items()
    }
    monkeypatch.setattr(own_task, "CHUNK", chunk)
    tracemalloc.start()
    fingerprint = own_task._fingerprint(store)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert fingerprint == expected
    assert peak < store["frames"].values.nbytes / 10


def frames_rows() -> object:
    store = frames_store(3, seed=0)
    return type("Rows", (), {"values": store["symbols"].values, "lengths": store["symbols"].lengths})
