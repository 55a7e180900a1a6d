"""Averages of weights: of the last checkpoints, of the best ones, and the moving average."""

from pathlib import Path

import pytest
import torch
from tests.conftest import toy_values
from tests.unit.training.objects import Killed, digests, kill, score, stop_at, train_until_killed, weights

from calque.data.prepare import open_prepared
from calque.engine import load
from calque.experiment import assembly_of, resume, train
from calque.training.averaging import mean_weights
from calque.training.checkpoints import load_weights, scheduled_steps
from calque.training.journal import read_journal

pytestmark = pytest.mark.usefixtures("unplotted")


def test_mean_weights_is_the_mean_taken_in_float64() -> None:
    """In float32 the ones would vanish beside 2^24."""
    parts = [{"w": torch.tensor([value])} for value in (2.0**24, 1.0, 1.0, -(2.0**24))]
    assert mean_weights(parts)["w"].tolist() == [0.5]
    assert mean_weights(parts)["w"].dtype == torch.float32


def test_integers_are_not_averaged() -> None:
    parts = [{"w": torch.tensor([value]), "ranks": torch.tensor([2**60 + 1, 0])} for value in (1.0, 3.0)]
    mean = mean_weights(parts)
    assert mean["w"].tolist() == [2.0]
    assert mean["ranks"].tolist() == [2**60 + 1, 0]
    assert mean["ranks"].dtype == torch.int64


def test_the_model_is_the_mean_of_the_last_checkpoints_if_configured(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its validation, and though training.keep is smaller."""
    for name, value in (("better", 101.0), ("worse", -1.0)):
        with monkeypatch.context() as patch:
            score(patch, lambda step, averaged, value=value: value if averaged else step)
            values = toy_values(corpus, "plain", "training.average=3", "training.keep=1", "training.patience=1")
            run = train(values, run=tmp_path / name, quiet=True)
        folder = run.folder / "checkpoints"
        assert scheduled_steps(folder) == [8, 12, 14]
        parts = [load_weights(folder / f"step-{step}") for step in (8, 12, 14)]
        expected = mean_weights(parts)
        saved = weights(load(run.folder).model)
        assert all(torch.equal(saved[key], expected[key]) for key in expected)
        assert not run.summary.stopped_early
        assert read_journal(run.folder / "metrics.jsonl")[-1]["averaged"] == 3


def test_the_model_is_the_mean_of_the_best_checkpoints_if_configured(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay on disk beside the last ones, after a kill too."""
    good = {2: 1.0, 4: 7.0, 6: 4.0, 8: 7.0, 10: 6.0, 12: 3.0, 14: 2.0}
    settings = ("training.average=3", "training.average_of=best", "training.validate_every=2", "training.keep=1")
    values = toy_values(corpus, "luong", *settings, "training.checkpoint_every=5")
    runs = []
    for name in ("whole", "killed"):
        with monkeypatch.context() as patch:
            score(patch, lambda step, averaged: 0.5 if averaged else good[step])
            if name == "killed":
                stop_at(patch, 11, before="_step", action=kill)
                with pytest.raises(Killed):
                    train(values, run=tmp_path / name, quiet=True)
                runs.append(resume(tmp_path / name, quiet=True))
            else:
                runs.append(train(values, run=tmp_path / name, quiet=True))
    for run in runs:
        folder = run.folder / "checkpoints"
        assert scheduled_steps(folder) == [4, 8, 10, 14]
        expected = mean_weights([load_weights(folder / f"step-{step}") for step in (4, 8, 10)])
        saved = weights(load(run.folder).model)
        assert all(torch.equal(saved[key], expected[key]) for key in expected)
    assert digests(runs[0].folder) == digests(runs[1].folder)


def test_the_moving_average_follows_its_equation_and_becomes_the_model(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("training.average=0", "training.ema=0.3", "training.steps=6", "training.checkpoint_every=1")
    values = toy_values(corpus, "transformer", *settings, "training.keep=9", "training.validate_every=6")
    run = train(values, run=tmp_path / "run", quiet=True)
    folder = run.folder / "checkpoints"
    start = assembly_of(run.config).build(open_prepared(run.folder / "store"))
    expected = {name: value.double() for name, value in weights(start).items()}
    for step in range(1, 7):
        share = min(0.3, (1 + step) / (10 + step))  # the decay from step 3 on
        current = load_weights(folder / f"step-{step}")
        expected = {name: share * value + (1 - share) * current[name].double() for name, value in expected.items()}
    saved = weights(load(run.folder).model)
    for name, value in expected.items():
        torch.testing.assert_close(saved[name].double(), value, rtol=0, atol=1e-6)
    assert any(not torch.equal(saved[name], load_weights(folder / "step-6")[name]) for name in expected)
    train_until_killed(values, run=tmp_path / "killed", step=3, monkeypatch=monkeypatch)
    assert digests(resume(tmp_path / "killed", quiet=True).folder) == digests(run.folder)


def test_a_damaged_checkpoint_is_left_out_of_the_mean(corpus: dict[str, Path], tmp_path: Path) -> None:
    settings = ("training.steps=6", "training.checkpoint_every=2", "training.keep=3", "training.average=3")
    run = train(toy_values(corpus, "plain", *settings), run=tmp_path / "run", quiet=True)
    damaged = run.folder / "checkpoints" / "step-2" / "weights.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    again = resume(run.folder, quiet=True)
    expected = mean_weights([load_weights(run.folder / "checkpoints" / f"step-{step}") for step in (4, 6)])
    saved = weights(load(again.folder).model)
    assert all(torch.equal(saved[key], expected[key]) for key in expected)
    assert "left out of the mean" in (run.folder / "log.txt").read_text(encoding="utf-8")
