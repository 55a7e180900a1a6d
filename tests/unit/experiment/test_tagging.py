"""A tagging run keeps the promises of training: exact resume, memory that runs out, several ranks, averages."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conftest import without_plots
from tests.integration.ranks import cold_ranks, train_ranks
from tests.tagged import tagging_values

from calque.config import override
from calque.engine import Tagger, load
from calque.experiment import resume, train
from calque.experiment.tagging import TaggingAssembly
from calque.models.tagger import TaggerModel
from calque.training.loop import Trainer


@pytest.fixture(autouse=True)
def _unplotted(monkeypatch):
    monkeypatch.setattr(TaggingAssembly, "draw", lambda *_: None)
    with without_plots():
        yield


class Killed(BaseException):
    """Stands for kill -9: nothing in the code under test catches it."""


def digests(run: Path) -> dict[str, str]:
    names = ["model/weights.safetensors", "model/confusion.json", "metrics.jsonl", "samples.txt"]
    names += [f"checkpoints/step-12/{group}.safetensors" for group in ("weights", "optimiser", "sums")]
    return {name: hashlib.sha256((run / name).read_bytes()).hexdigest() for name in names}


def metrics(run: Path, kind: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == kind]


@pytest.mark.parametrize("step", [2, 6])
@pytest.mark.parametrize("changes", [{}, {"ema": 0.9}, {"average": 2}], ids=["plain", "ema", "average"])
def test_a_run_that_is_killed_ends_with_the_same_bytes(tmp_path, monkeypatch, step, changes) -> None:
    values = tagging_values(tmp_path, **changes)
    train(values, run=tmp_path / "whole", quiet=True)
    take = Trainer._step

    def killing(self: Trainer, parts: Any) -> None:
        if self.progress.step == step:
            raise Killed
        take(self, parts)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", killing)
        with pytest.raises(Killed):
            train(values, run=tmp_path / "killed", quiet=True)
    resume(tmp_path / "killed", quiet=True)
    assert digests(tmp_path / "killed") == digests(tmp_path / "whole")


def test_where_memory_runs_out_batches_are_split_and_the_gradient_is_the_same(tmp_path, monkeypatch) -> None:
    values = override(
        tagging_values(tmp_path, precision="float64"),
        ["model.dropout=0.0", "model.word_dropout=0.0", "model.encoder.dropout=0.0"],
    )
    train(values, run=tmp_path / "whole", quiet=True)
    forward, failed = TaggerModel.forward, []

    def failing(self: TaggerModel, source: Any) -> torch.Tensor:
        if self.training and source.words.shape[0] > 8:
            failed.append(source.words.shape[0])
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return forward(self, source)

    monkeypatch.setattr(TaggerModel, "forward", failing)
    train(values, run=tmp_path / "split", quiet=True)
    assert failed
    losses = [[line["loss"] for line in metrics(tmp_path / name, "train")] for name in ("whole", "split")]
    assert losses[1] == pytest.approx(losses[0], rel=1e-9)


def test_two_ranks_learn_what_one_does(tmp_path) -> None:
    values = override(
        tagging_values(tmp_path, precision="float64"),
        ["model.dropout=0.0", "model.word_dropout=0.0", "model.encoder.dropout=0.0"],
    )
    train(values, run=tmp_path / "one", quiet=True)
    ended = train_ranks(cold_ranks, 2, values, tmp_path / "two")
    assert ended.codes == [0, 0], ended.said
    for kind in ("train", "valid"):
        one, two = (metrics(tmp_path / name, kind) for name in ("one", "two"))
        assert [line["loss"] for line in two] == pytest.approx([line["loss"] for line in one], rel=1e-9)


def test_the_confusions_of_the_kept_model_are_drawn(tmp_path, monkeypatch) -> None:
    monkeypatch.undo()
    values = tagging_values(tmp_path, steps=2)
    with without_plots():
        run = train(values, run=tmp_path / "run", quiet=True).folder
    assert (run / "plots" / "confusion.png").read_bytes().startswith(b"\x89PNG")


def test_the_kept_model_has_the_best_f1_and_gives_it_again(tmp_path) -> None:
    done = train(tagging_values(tmp_path, steps=24), run=tmp_path / "run", quiet=True)
    lines = metrics(done.folder, "valid")
    assert set(lines[0]) - {"best"} == {"kind", "step", "loss", "accuracy", "precision", "recall", "f1"}
    assert done.config.training.metric == "f1" and done.summary.best_value == max(line["f1"] for line in lines)
    tagger = load(done.folder)
    assert isinstance(tagger, Tagger) and tagger.columns == ("form", "pos", "chunk")
    counts = json.loads((done.folder / "model" / "confusion.json").read_bytes())
    best = next(line for line in lines if line["step"] == done.summary.best_step)
    right = sum(count for gold, label, count in counts if gold == label)
    assert 100 * right / sum(count for *_, count in counts) == pytest.approx(best["accuracy"])
    assert "/" in (done.folder / "samples.txt").read_text()
