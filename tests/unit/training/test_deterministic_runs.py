"""Runs in deterministic mode learn the same, and leave torch as it was."""

import json
from pathlib import Path

import pytest
import torch
from tests.conftest import toy_corpus, toy_values

from calque.experiment import train
from calque.training.journal import read_journal


@pytest.mark.usefixtures("unplotted")
def test_a_deterministic_run_learns_the_same(tmp_path: Path) -> None:
    """With the parts that compute otherwise in it: average attention, and words that are sampled."""
    corpus = toy_corpus(tmp_path)
    parts = ("model.decoder.mixer=average", "model.output.kind=sampled", "model.output.samples=6")
    short = ("training.label_smoothing=0", "training.steps=6", "training.log_every=1", "training.average=0")
    values = toy_values(corpus, "transformer", *parts, *short)
    found = {}
    for mode in (False, True):
        values["training"]["deterministic"] = mode
        run = train(values, run=tmp_path / str(mode), quiet=True).folder
        found[mode] = [line["loss"] for line in read_journal(run / "metrics.jsonl")]
    assert found[True] == pytest.approx(found[False], abs=1e-5)
    assert not torch.are_deterministic_algorithms_enabled()
    assert json.loads((tmp_path / "True" / "run.json").read_bytes())["reproducible"]
