"""Runs of taggers: what is kept of the best one. tests/promises has the rest."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import without_plots
from tests.tagged import tagging_values

from calque.config import check, override
from calque.data.prepare import prepare
from calque.engine import Tagger, load
from calque.errors import ConfigError
from calque.experiment import Experiment, assembly_of, train
from calque.experiment.tagging import TaggingAssembly
from calque.tasks.interfaces import StoppedError


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
    with pytest.raises(
        ConfigError, match=rf"{setting.partition('=')[0]} needs labels that describe spans.*'pos' contains"
    ):
        train(values, run=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize("name", ["a/b", "../x", ".hidden", "a b"])
def test_columns_have_names_that_files_can_have(tmp_path, name) -> None:
    with pytest.raises(ConfigError, match="column names may contain only letters, digits, _, - and dots"):
        train(override(tagging_values(tmp_path), [f'task.inputs=["{name}"]']), run=tmp_path / "run", quiet=True)


@pytest.mark.parametrize(("score", "metric"), [("auto", "f1"), ("spans", "f1"), ("accuracy", "accuracy")])
def test_spans_are_measured_unless_accuracy_is_asked_for(tmp_path, score, metric) -> None:
    values = override(tagging_values(tmp_path, steps=4), [f"task.score={score}"])
    done = train(values, run=tmp_path / "run", quiet=True)
    assert done.config.training.metric == metric
    assert ("f1" in metrics(done.folder, "valid")[0]) == (metric == "f1")


def test_labels_that_only_the_validation_data_has_are_reported(tmp_path) -> None:
    values = tagging_values(tmp_path, steps=1)
    for word in ("strange", "odd"):
        with (tmp_path / "valid.txt").open("a") as file:
            file.write(f"\n{word} A B-VP\n")
    train(values, run=tmp_path / "run", quiet=True)
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "warning: these labels of the validation data do not occur in training: B-VP (2)\n" in log


def test_a_tagger_is_not_warm_started(tmp_path) -> None:
    values = override(tagging_values(tmp_path), [f"training.warm_start={tmp_path}"])
    with pytest.raises(ConfigError, match=r"training\.warm_start is not supported for taggers"):
        train(values, run=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_stop_ends_the_judgement_and_the_next_one_is_whole(tmp_path) -> None:
    experiment = check(Experiment, tagging_values(tmp_path), origin="test")
    assembly = assembly_of(experiment)
    prepared = prepare(experiment.data, preparation=assembly.preparation, folder=tmp_path / "store")
    model = assembly.build(prepared).eval()
    judge = assembly.judge(model, prepared, ranks=1)
    expected = judge(model, parts=1, stop=lambda: False)
    with pytest.raises(StoppedError):
        judge(model, parts=1, stop=lambda: True)
    assert judge(model, parts=4, stop=lambda: False).values == pytest.approx(expected.values)
    assert set(expected.values) == set(judge.reports) and judge.selects == assembly.selects(prepared).name
