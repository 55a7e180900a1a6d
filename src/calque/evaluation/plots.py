"""A bar chart of scores by system, if matplotlib is installed."""

from collections.abc import Mapping
from pathlib import Path

from calque.evaluation.metrics import Scores


def draw_scores(path: Path, scores: Mapping[str, Scores]) -> bool:
    """Plots BLEU and exact match of each system as bars; returns False if matplotlib is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(8, 0.9 + 0.75 * len(scores)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for position, system in enumerate(scores.values()):
        rows = (
            (-0.19, system.bleu.value, "#33658a", "BLEU"),
            (0.19, system.exact_match.value, "#f6ae2d", "exact match, %"),
        )
        for offset, value, colour, label in rows:
            bars = axes.barh(
                position + offset, value, height=0.36, color=colour, label=label if position == 0 else None
            )
            axes.bar_label(bars, labels=[f"{value:.1f}"], padding=3, fontsize=9)
    axes.set_yticks(range(len(scores)), list(scores))
    axes.invert_yaxis()
    axes.set_xlim(0, 110)
    axes.set_title("held-out test", loc="left", fontsize=10)
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    return True
