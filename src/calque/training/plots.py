"""A run's curves as pictures, where matplotlib is installed."""

from pathlib import Path
from typing import Any

from calque.training.journal import read_journal


def draw_curves(run: Path) -> bool:
    """Draws RUN/plots/training.svg and .png from RUN/metrics.jsonl; False where matplotlib is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    lines = read_journal(run / "metrics.jsonl")
    train = [line for line in lines if line["kind"] == "train"]
    valid = [line for line in lines if line["kind"] == "valid" and "averaged" not in line]
    figure = Figure(figsize=(10, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    (loss, bleu), (rate, norm) = figure.subplots(2, 2, sharex=True)
    _curve(loss, train, "loss", label="training, with dropout and label smoothing")
    _curve(loss, valid, "loss", label="validation, without", marker="o")
    _curve(bleu, valid, "bleu", label="BLEU", marker="o")
    _curve(bleu, valid, "exact_match", label="exact match, %", marker="o")
    _curve(rate, train, "learning_rate", label="learning rate")
    _curve(norm, train, "gradient_norm", label="gradient norm")
    for axes, title in (
        (loss, "loss, nats a token"),
        (bleu, "validation"),
        (rate, "learning rate"),
        (norm, "gradient"),
    ):
        axes.set_title(title, loc="left", fontsize=10)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    for axes in (rate, norm):
        axes.set_xlabel("step")
    plots = run / "plots"
    plots.mkdir(exist_ok=True)
    for suffix in ("svg", "png"):
        figure.savefig(plots / f"training.{suffix}", dpi=110)
    return True


def _curve(axes: Any, lines: list[dict[str, Any]], key: str, *, label: str, marker: str = "") -> None:
    axes.plot([line["step"] for line in lines], [line[key] for line in lines], label=label, marker=marker, markersize=3)
