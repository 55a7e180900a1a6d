"""The gradient flow of trained runs of every task: the document, the summary and the pictures."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import made_once, toy_corpus, toy_values

from calque.errors import DataError
from calque.experiment import Run, train
from calque.inspection.gradient_report import clipped_steps, gradient_flow_report, gradient_flow_summary
from calque.inspection.pictures_gradients import draw_gradient_flow, draw_recorded_gradients, terms_picture

FAMILIES = ("plain", "luong", "bahdanau", "convolutional", "transformer")
RECURRENT = {"plain": 2, "luong": 3, "bahdanau": 3, "convolutional": 0, "transformer": 0}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return toy_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def runs(corpus: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    return made_once(lambda *asked: toy_values(corpus, *asked), folder=lambda: tmp_path_factory.mktemp("run"))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_document_of_a_translation_model(family: str, runs: Callable[..., Run], corpus: dict[str, Path]) -> None:
    run = runs(family).folder
    document = gradient_flow_report(run, device="cpu")
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert (document["kind"], document["version"], document["task"]) == ("gradient-flow", 1, "translation")
    assert document["model"]["attends"] == (family != "plain")
    assert len(document["recurrences"]) == RECURRENT[family]
    sides = {flow["side"] for flow in document["flows"]}
    assert sides == {"encoder", "decoder"}
    for flow in document["flows"]:
        assert flow["distance"] == ("steps" if flow["side"] == "encoder" else "positions")
        assert min(flow["distances"]) == (1 if flow["side"] == "encoder" else 0)
        for low, median, high in zip(*flow["quantiles"].values(), strict=True):
            assert 0 <= low <= median <= high
        assert all(map(math.isfinite, flow["mean"]))
    assert 0 <= document["clipping"]["share"] <= 1
    summary = gradient_flow_summary(document)
    assert "encoder: median" in summary and "decoder: median" in summary and "clipped in training: " in summary
    assert "from reading source piece j to predicting target token i" in summary
    (skipped,) = {
        flow["mean"][0] == 0 for flow in document["flows"] if flow["side"] == "decoder" and flow["layer"] == 1
    }
    assert skipped == (family == "bahdanau") == ("the gradient at distance 0 is 0: " in summary)
    assert "not recorded" not in summary
    assert "clipped in training: not recorded" in gradient_flow_summary({**document, "clipping": None})
    files = gradient_flow_report(run, source=corpus["source"], target=corpus["target"], sentences=7, device="cpu")
    assert files["sentences"] == 7


def test_gates_of_an_lstm_are_probabilities_and_the_direct_term_is_the_forget_gate(runs: Callable[..., Run]) -> None:
    for item in gradient_flow_report(runs("plain").folder, device="cpu")["recurrences"]:
        assert list(item["gates"]) == ["forget gate", "input gate", "output gate"]
        assert list(item["jacobian"]["gains"]) == ["direct", "forget gate", "input gate", "candidate", "total"]
        assert [matrix["gate"] for matrix in item["matrices"]] == [
            *("input gate", "forget gate", "candidate", "output gate")
        ]
        means, gains = item["gates"]["forget gate"]["by_step"], item["jacobian"]["gains"]["direct"]
        for mean, gain in zip(means, gains, strict=True):
            assert 0 < mean <= gain < 1, "the root mean square of the gate is at least its mean"


def test_pictures_are_drawn(runs: Callable[..., Run], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for family, names in (("luong", 3), ("transformer", 1)):
        document = gradient_flow_report(runs(family).folder, device="cpu")
        paths = draw_gradient_flow(document, folder=tmp_path / family)
        assert len(paths) == 2 * names
        assert all(path.stat().st_size > 1000 for path in paths)


def test_the_legend_of_terms_hides_no_curve(runs: Callable[..., Run]) -> None:
    pytest.importorskip("matplotlib")
    figure = terms_picture(gradient_flow_report(runs("plain").folder, device="cpu"))
    figure.canvas.draw()
    shown = [axes for axes in figure.axes if "gain" in axes.get_title(loc="left")]
    assert len(shown) == 2
    for axes in shown:
        assert not axes.get_legend().get_window_extent().overlaps(axes.get_window_extent())


def test_training_is_drawn(corpus: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run = train(toy_values(corpus, "luong", "training.watch_gradients=1"), run=tmp_path / "run", quiet=True).folder
    assert (run / "plots" / "gradients.png").read_bytes().startswith(b"\x89PNG")
    (run / "gradients.jsonl").unlink()
    assert not draw_recorded_gradients(run)


@pytest.mark.usefixtures("unplotted")
@pytest.mark.parametrize("reading", ["lines", "running"])
@pytest.mark.parametrize("network", [{"kind": "recurrent", "layers": 2}, {"kind": "transformer", "layers": 1}])
def test_language_models(network: dict[str, Any], reading: str, corpus: dict[str, Path], tmp_path: Path) -> None:
    sizes = (
        {"width": 16, "embedding": 16}
        if network["kind"] == "recurrent"
        else {"width": 16, "feed_forward": 32, "heads": 2}
    )
    values = toy_values(corpus, "plain", "training.watch_gradients=1")
    del values["training"]["metric"]
    values |= {
        "task": {"kind": "language-modelling", "reading": reading, "bptt": 8},
        "data": {"train": [{"kind": "text", "path": str(corpus["target"])}]},
        "model": {"kind": "language-model", "network": {**network, **sizes}},
    }
    run = train(values, run=tmp_path / "run", quiet=True).folder
    document = gradient_flow_report(run, device="cpu")
    assert {flow["side"] for flow in document["flows"]} == {"network"}
    assert len(document["recurrences"]) == (2 if network["kind"] == "recurrent" else 0)
    assert gradient_flow_report(run, target=corpus["target"], sentences=5, device="cpu")["sentences"] == 5
    with pytest.raises(DataError, match="reads no source"):
        gradient_flow_report(run, source=corpus["source"], target=corpus["target"], device="cpu")
    assert "language model: median" in gradient_flow_summary(document)


def test_mistakes_are_reported(runs: Callable[..., Run], corpus: dict[str, Path]) -> None:
    run = runs("plain").folder
    with pytest.raises(DataError, match="--source was given without --target"):
        gradient_flow_report(run, source=corpus["source"], device="cpu")
    with pytest.raises(DataError, match="no prepared data"):
        gradient_flow_report(run / "model", device="cpu")


def test_clipped_shares_are_weighted_by_steps(tmp_path: Path) -> None:
    assert clipped_steps(tmp_path) is None
    lines = [{"kind": "train", "step": 10, "clipped": 1.0}, {"kind": "train", "step": 40, "clipped": 0.2}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    clipping = clipped_steps(tmp_path)
    assert clipping is not None and clipping["share"] == pytest.approx(0.4)
