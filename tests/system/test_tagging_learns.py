"""Taggers must learn: labels of a hidden Markov model, one of whose words has two, and chunks over them."""

import pytest

from calque.config import override
from calque.experiment import train
from calque.experiment.tagging import TaggingAssembly
from tests.conftest import without_plots
from tests.tagged import tagging_values, write_columns


@pytest.mark.parametrize("head", ["softmax", "crf"])
@pytest.mark.parametrize("labels", ["pos", "chunk"])
def test_a_tagger_learns_what_the_words_before_decide(tmp_path, monkeypatch, seed, head, labels) -> None:
    monkeypatch.setattr(TaggingAssembly, "draw", lambda *_: None)
    values = tagging_values(tmp_path, steps=600, validate_every=50, checkpoint_every=600)
    write_columns(tmp_path / "train.txt", sentences=600, seed=seed % 1000)
    write_columns(tmp_path / "valid.txt", sentences=100, seed=seed % 1000 + 1)
    values = override(
        {**values, "task": {"kind": "tagging", "labels": labels}, "seed": seed % 1000},
        [f"model.head={head}", "model.dropout=0.1"],
    )
    with without_plots():
        best = train(values, run=tmp_path / "run", quiet=True).summary.best
    assert best is not None and best.values["accuracy"] >= 95, best.summary
    if labels == "chunk":
        assert best.values["f1"] >= 95, best.summary
