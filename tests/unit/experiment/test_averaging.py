"""The mean of a run's checkpoints as a model folder: which checkpoints, and what is rejected. The command is in
tests/integration.
"""

import shutil
from pathlib import Path
from typing import Literal

import pytest
import torch
from safetensors.torch import load_file
from tests.conftest import toy_corpus, toy_values, without_plots
from tests.unit.experiment.frames_task import frames_task

import calque
from calque.engine import load
from calque.errors import FolderError
from calque.experiment import averaging, train
from calque.experiment.averaging import average_run
from calque.experiment.judges import TRANSLATION_METRICS
from calque.tasks.metric import Selection
from calque.training.journal import read_journal
from calque.training.lock import run_lock

STEPS = [4, 8, 12, 14]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with checkpoints of steps 4, 8, 12 and 14, all validated by their loss; tests must not change it."""
    folder = tmp_path_factory.mktemp("run")
    settings = ("training.average=0", "training.keep=4", "training.validate_every=4", "training.metric=loss")
    with without_plots():
        return train(toy_values(toy_corpus(folder), "luong", *settings), run=folder / "run", quiet=True).folder


def mean_of(run: Path, steps: list[int]) -> dict[str, torch.Tensor]:
    """Computed in float64 and one checkpoint after the other."""
    total: dict[str, torch.Tensor] = {}
    for step in steps:
        for name, value in load_file(run / "checkpoints" / f"step-{step}" / "weights.safetensors").items():
            total[name] = total.get(name, torch.zeros_like(value).double()) + value.double() / len(steps)
    return total


def best_by_loss(run: Path, count: int) -> list[int]:
    lines = [line for line in read_journal(run / "metrics.jsonl") if line["kind"] == "valid"]
    return sorted(line["step"] for line in sorted(lines, key=lambda line: line["loss"])[:count])


@pytest.mark.parametrize("count", [None, 1, 3])
@pytest.mark.parametrize("of", ["last", "best"])
def test_the_model_has_the_mean_weights_of_the_chosen_checkpoints(
    of: Literal["last", "best"], count: int | None, run: Path, tmp_path: Path
) -> None:
    chosen = average_run(run, of=of, count=count, output=tmp_path / "mean")
    assert chosen == (best_by_loss(run, count or 4) if of == "best" else STEPS[-(count or 4) :])
    averaged = load_file(tmp_path / "mean" / "weights.safetensors")
    for name, value in mean_of(run, chosen).items():
        torch.testing.assert_close(averaged[name].double(), value, rtol=0, atol=1e-7)
    assert f"checkpoints of steps {', '.join(map(str, chosen))}." in (tmp_path / "mean" / "README.md").read_text()
    assert load(tmp_path / "mean", device="cpu").confidence is None  # it was measured with other weights


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ("last", r"has 4 checkpoints, of steps 4, 8, 12, 14, but 5 are needed"),
        ("best", r"has 4 validated checkpoints, of steps 4, 8, 12, 14, but 5 are needed"),
    ],
)
def test_too_few_checkpoints_are_listed(of: Literal["last", "best"], message: str, run: Path, tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=message):
        average_run(run, of=of, count=5, output=tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


def test_a_run_without_checkpoints_is_rejected(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))
    with pytest.raises(FolderError, match=r"has 0 checkpoints, but at least 1 are needed"):
        average_run(tmp_path / "run", of="last", count=None, output=tmp_path / "mean")


def test_only_runs_of_the_package_that_nobody_trains_are_averaged(run: Path, tmp_path: Path) -> None:
    for folder in (tmp_path, run / "model"):  # a model folder has a config.toml too
        with pytest.raises(FolderError, match="not a run folder"):
            average_run(folder, of="last", count=None, output=tmp_path / "mean")
    with run_lock(run), pytest.raises(FolderError, match="is being trained"):
        average_run(run, of="last", count=None, output=tmp_path / "mean")
    config = {"training": {"steps": 1, "device": "cpu", "threads": 1, "batch": {"tokens": 60}}}
    with without_plots():
        own = calque.train(config, task=frames_task(dropout=0.0), run=tmp_path / "own", quiet=True).folder
    with pytest.raises(FolderError, match=r"a run of a custom task.*training\.average"):
        average_run(own, of="last", count=None, output=tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


def test_best_means_the_runs_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        {"kind": "valid", "step": 4, "loss": 2.0, "bleu": 9.0},
        {"kind": "valid", "step": 8, "loss": 1.0, "bleu": 3.0, "chrf": 20.0},
        {"kind": "valid", "step": 12, "loss": 0.5, "bleu": 3.0, "chrf": 10.0},
        {"kind": "valid", "step": 13, "loss": 0.1, "bleu": 99.0},
        {"kind": "valid", "step": 14, "loss": 3.0, "bleu": 4.0},
        {"kind": "valid", "step": 14, "loss": 0.0, "bleu": 99.0, "averaged": 3},
    ]
    monkeypatch.setattr(averaging, "read_journal", lambda _path: lines)
    for metric, tie_breaker, order in (
        ("bleu", "loss", [4, 14, 12, 8]),
        ("loss", "loss", [12, 8, 4, 14]),
        ("bleu", "chrf", [4, 14, 8, 12]),
    ):
        selection = Selection(metric, tie_breaker, TRANSLATION_METRICS)
        monkeypatch.setattr(averaging, "selection_of", lambda _run, selection=selection: selection)
        assert averaging._best_first(tmp_path, steps=[4, 8, 12, 14]) == order
