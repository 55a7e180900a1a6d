"""Runs in deterministic mode learn the same, and restore the mode of torch."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conftest import toy_corpus, toy_values

from calque.experiment import train
from calque.training.journal import read_journal
from calque.training.update import Updater


@pytest.mark.usefixtures("unplotted")
def test_a_deterministic_run_learns_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With parts that compute differently in it: average attention and sampled softmax."""
    corpus = toy_corpus(tmp_path)
    parts = ("model.decoder.mixer=average", "model.output.kind=sampled", "model.output.samples=6")
    short = ("training.label_smoothing=0", "training.steps=6", "training.log_every=1", "training.average=0")
    values = toy_values(corpus, "transformer", *parts, *short)
    losses, modes = {}, []
    update = Updater.update

    def watched(updater: Updater, *arguments: Any, **options: Any) -> None:
        modes.append(torch.are_deterministic_algorithms_enabled())
        update(updater, *arguments, **options)

    monkeypatch.setattr(Updater, "update", watched)
    for mode in (False, True):
        values["training"]["deterministic"] = mode
        run = train(values, run=tmp_path / str(mode), quiet=True).folder
        losses[mode] = [line["loss"] for line in read_journal(run / "metrics.jsonl")]
    assert modes == [False] * 6 + [True] * 6
    assert losses[True] == pytest.approx(losses[False], abs=1e-5)
    assert not torch.are_deterministic_algorithms_enabled()
    assert json.loads((tmp_path / "True" / "run.json").read_bytes())["reproducible"]
