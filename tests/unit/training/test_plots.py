"""Curves are drawn with matplotlib, and skipped without it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from calque.training.plots import FEW, draw_curves

TRAIN = {"kind": "train", "step": 1, "loss": 2.0, "learning_rate": 0.1, "gradient_norm": 1.0}
VALID = {"kind": "valid", "step": 1, "loss": 2.0, "bleu": 3.0, "exact_match": 0.0}


def write(folder: Path, *lines: dict[str, object]) -> None:
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def test_plots_are_drawn_also_of_unusual_runs(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write(tmp_path, TRAIN, VALID, {**TRAIN, "step": 2, "gradient_norm": "Infinity"}, {**VALID, "averaged": 2})
    assert draw_curves(tmp_path)
    assert (tmp_path / "plots" / "training.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "plots" / "training.svg").read_text(encoding="utf-8")
    assert draw_curves(tmp_path)  # a second time is fine


def test_every_panel_has_its_curves(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write(tmp_path, {**TRAIN, "padding": 0.1, "skipped": 1}, {**VALID, "chrf": 9.0, "ter": 80.0})
    (tmp_path / "lengths.json").write_text('{"source": [0, 3, 4], "target": [1, 2, 4]}', encoding="ascii")
    assert draw_curves(tmp_path)
    plot = (tmp_path / "plots" / "training.svg").read_text(encoding="utf-8")
    curves = (
        "training, with",
        "validation, without either",
        "BLEU",
        "chrF",
        "TER",
        "exact match",
        "learning rate",
        "gradient norm",
    )
    assert [name for name in (*curves, "padding", "skipped updates", "source", "target") if name not in plot] == []


def test_an_objective_other_than_the_loss_has_a_curve(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for objective, is_drawn in ((2.0, False), (2.5, True)):
        write(tmp_path, {**TRAIN, "objective": objective}, VALID)
        assert draw_curves(tmp_path)
        assert ("whole objective" in (tmp_path / "plots/training.svg").read_text(encoding="utf-8")) == is_drawn


def test_without_matplotlib_nothing_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    write(tmp_path, TRAIN)
    assert not draw_curves(tmp_path)
    assert not (tmp_path / "plots").exists()


def panels(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The panels that are drawn, in their order."""
    figures: list[Any] = []
    figure = pytest.importorskip("matplotlib.figure").Figure
    monkeypatch.setattr(figure, "savefig", lambda self, *_, **__: figures.append(self))
    assert draw_curves(folder)
    figures[0].draw_without_rendering()
    return list(figures[0].axes)


def test_the_kept_step_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{**VALID, "step": step, "best": step <= 4} for step in (2, 4, 6)]
    for averaged, label, step in (([], "kept: step 4", 4), ([{"averaged": 3, "best": 1}], "kept: mean of 3 check", 6)):
        write(tmp_path, {**TRAIN, "step": 6}, *lines, *({**VALID, "step": 6, **mean} for mean in averaged))
        for axes in panels(tmp_path, monkeypatch)[:2]:
            (mark,) = [line for line in axes.lines if str(line.get_label()).startswith(label)]
            assert list(mark.get_xdata()) == [step, step]


def test_ticks_are_integers_and_few_points_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lengths.json").write_text('{"source": [0, 1], "target": [0, 1]}', encoding="ascii")
    for count in (1, 2, 200):
        steps = range(1, count + 1)
        write(tmp_path, *({**TRAIN, "step": step} for step in steps), *({**VALID, "step": step} for step in steps))
        for axes in panels(tmp_path, monkeypatch):
            low, high = axes.get_xlim()
            ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
            assert ticks and all(tick == round(tick) for tick in ticks), (count, axes.get_title(loc="left"))
            for curve in axes.lines:
                assert (curve.get_marker() == "o") == (len(curve.get_xdata()) <= FEW)
