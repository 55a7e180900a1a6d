"""Plots of a run's curves, if matplotlib is installed."""

from itertools import chain
from pathlib import Path
from typing import Any

from calque.parsing import parse_json
from calque.training.journal import read_journal

LENGTHS = "lengths.json"
SCORES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "ter": "TER",
    "exact_match": "exact match, %",
    "accuracy": "accuracy, %",
    "f1": "F1, %",
}


FEW = 30  # curves with at most this many points have them marked
KEPT = {"color": "black", "linestyle": ":", "linewidth": 1}


def draw_curves(run: Path) -> bool:
    """Draws RUN/plots/training.svg and .png from metrics.jsonl and lengths.json. Returns False without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        return False
    lines = read_journal(run / "metrics.jsonl")
    train = [line for line in lines if line["kind"] == "train"]
    valid = [line for line in lines if line["kind"] == "valid" and "averaged" not in line]
    figure = Figure(figsize=(13, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    (loss, scores, lengths), (rate, norm, padding) = figure.subplots(2, 3)
    _curve(loss, train, "loss", label="training, with dropout and label smoothing")
    _curve(loss, valid, "loss", label="validation, without either")
    if any(line.get("objective", line["loss"]) != line["loss"] for line in train):
        _curve(loss, train, "objective", label="training, whole objective")
    for key, label in SCORES.items():
        if any(key in line for line in valid):
            _curve(scores, valid, key, label=label)
    _curve(rate, train, "learning_rate", label="learning rate")
    _curve(norm, train, "gradient_norm", label="gradient norm, before clipping")
    if any(line.get("clipped") for line in train):
        _curve(norm, train, "clipped", label="clipped steps, share")
    _curve(padding, train, "padding", label="padding, share of positions")
    if any(line.get("skipped") for line in train):
        _curve(padding, train, "skipped", label="skipped updates, total")
    _lengths(lengths, run / LENGTHS)
    _mark_kept([loss, scores], lines)
    titles = {
        loss: "loss, nats per token",
        scores: "validation",
        lengths: "training pairs by length",
        rate: "learning rate",
        norm: "gradient",
        padding: "batches",
    }
    for axes, title in titles.items():
        axes.set_title(title, loc="left", fontsize=10)
        axes.grid(alpha=0.3)
        axes.set_xlabel("pieces" if axes is lengths else "step", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if axes.lines or axes.patches:
            axes.legend(frameon=False, fontsize=8)
    lengths.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    plots = run / "plots"
    plots.mkdir(exist_ok=True)
    for suffix in ("svg", "png"):
        figure.savefig(plots / f"training.{suffix}", dpi=110)
    return True


def _curve(axes: Any, lines: list[dict[str, Any]], key: str, *, label: str) -> None:
    """Draws the values of `key` over steps. Points are marked if there are few, since a single point has no line."""
    known = [line for line in lines if key in line]
    steps, values = [line["step"] for line in known], [line[key] for line in known]
    axes.plot(steps, values, label=label, marker="o" if len(known) <= FEW else "", markersize=3)


def _mark_kept(panels: list[Any], lines: list[dict[str, Any]]) -> None:
    """Draws a vertical line at the step of the model that was kept, the last one recorded as the best."""
    kept = next((line for line in reversed(lines) if line["kind"] == "valid" and line.get("best")), None)
    if kept is None:
        return
    label = f"kept: mean of {kept['averaged']} checkpoints" if "averaged" in kept else f"kept: step {kept['step']:,}"
    for axes in panels:
        axes.axvline(kept["step"], label=label, zorder=0, **KEPT)


def _lengths(axes: Any, path: Path) -> None:
    if not path.exists():
        return
    counts = parse_json(path.read_text(encoding="ascii"))
    last = max((index for index, count in enumerate(chain(*zip(*counts.values(), strict=True))) if count), default=0)
    for name, histogram in counts.items():
        axes.stairs(histogram[: last // len(counts) + 1], label=name)
