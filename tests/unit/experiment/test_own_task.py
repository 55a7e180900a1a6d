"""A user's own task trains and resumes as those of the package do, which know nothing of it."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.unit.experiment.frames_task import FramesBatch, FramesCopy, frames_store, frames_task
from torch import nn

import calque
from calque.data.store import store_in_memory
from calque.tasks.interfaces import Carry, Loss
from calque.training.journal import read_journal

CONFIG = {
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
    with pytest.raises(calque.ConfigError, match="no column frames"):
        calque.train(CONFIG, task=lacking, run=tmp_path / "a", quiet=True)
    with pytest.raises(calque.ConfigError, match="'bleu' is not one of accuracy, loss"):
        calque.train({"training": {"metric": "bleu"}}, task=own, run=tmp_path / "b", quiet=True)
    run = calque.train(CONFIG, task=frames_task(), run=tmp_path / "c", quiet=True).folder
    with pytest.raises(calque.DataError, match="column frames"):
        calque.resume(run, task=own._replace(train=frames_store(200, seed=9)), quiet=True)


def frames_rows() -> object:
    store = frames_store(3, seed=0)
    return type("Rows", (), {"values": store["symbols"].values, "lengths": store["symbols"].lengths})
