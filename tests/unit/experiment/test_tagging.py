"""Runs of taggers: what is kept of the best one. tests/promises has the rest."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import without_plots
from tests.tagged import tagging_values

from calque.config import override
from calque.engine import Tagger, load
from calque.errors import ConfigError
from calque.experiment import train
from calque.experiment.tagging import TaggingAssembly


@pytest.fixture(autouse=True)
def _unplotted(monkeypatch):
    monkeypatch.setattr(TaggingAssembly, "draw", lambda *_: None)
    with without_plots():
        yield


def metrics(run: Path, kind: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == kind]


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


@pytest.mark.parametrize("setting", ["task.score=spans", "training.metric=f1"])
def test_spans_are_not_measured_of_labels_that_have_none(tmp_path, setting) -> None:
    values = override(tagging_values(tmp_path), ["task.labels=pos", "task.inputs=[]", setting])
    with pytest.raises(ConfigError, match=rf"{setting.partition('=')[0]}: only labels such as B-NP.*'pos' has"):
        train(values, run=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize("name", ["a/b", "../x", ".hidden", "a b"])
def test_columns_have_names_that_files_can_have(tmp_path, name) -> None:
    with pytest.raises(ConfigError, match="column names may contain only letters, digits, _, - and dots"):
        train(override(tagging_values(tmp_path), [f'task.inputs=["{name}"]']), run=tmp_path / "run", quiet=True)
