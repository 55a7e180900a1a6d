"""The line as a picture: BLEU by the length of the source, and BLEU of all entries."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from claims import Results
from lengths import BUCKET_NAMES
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

MAIN = ("cho2014", "sutskever2014", "bahdanau2015", "luong2015", "gehring2017", "vaswani2017-base")
COLOURS = ("#d55e00", "#e69f00", "#0072b2", "#56b4e9", "#009e73", "#cc79a7")  # Okabe and Ito's, told apart by all
MARKERS = "osD^vP"
OTHERS = "#595959"


def draw_line(path: Path, results: Results, *, unit: str = "words") -> None:
    """Draws the figure; lengths are counted in `unit`."""
    figure = Figure(figsize=(12, max(4.2, 1.4 + 0.27 * len(results))), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    styles = dict(zip(MAIN, zip(COLOURS, MARKERS, strict=True), strict=True))
    main = [name for name in MAIN if name in results]
    for name in main:
        _lengths(left, name, results, style=styles[name])
    _dots(right, results, styles=styles)
    left.set_xticks(range(len(BUCKET_NAMES)), BUCKET_NAMES)
    left.set_xlabel(f"length of the source, {unit}")
    left.set_ylabel("BLEU, lowercased")
    left.set_ylim(bottom=0)
    left.set_title("by length: the test set, and its neighbours joined by 2, 3 and 4", loc="left", fontsize=10)
    if main:
        left.legend(frameon=False, fontsize=9)
    right.set_xlabel("BLEU, lowercased")
    right.set_title("test set: mean, and range over seeds", loc="left", fontsize=10)
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def _lengths(axes: Any, name: str, results: Results, *, style: tuple[str, str]) -> None:
    """A line through the means, and a band from the lowest to the highest seed."""
    columns = [[one["lengths"][bucket]["bleu_lowercased"] for one in results[name].values()] for bucket in BUCKET_NAMES]
    found = [(place, column) for place, column in enumerate(columns) if None not in column]
    places = [place for place, _ in found]
    colour, marker = style
    axes.plot(places, [_mean(column) for _, column in found], color=colour, marker=marker, markersize=6, label=name)
    lows, highs = ([pick(column) for _, column in found] for pick in (min, max))
    axes.fill_between(places, lows, highs, color=colour, alpha=0.15, linewidth=0)


def _dots(axes: Any, results: Results, *, styles: dict[str, tuple[str, str]]) -> None:
    for place, (name, seeds) in enumerate(results.items()):
        values = [one["bleu_lowercased"] for one in seeds.values()]
        colour, marker = styles.get(name, (OTHERS, "o"))
        axes.plot([min(values), max(values)], [place, place], color=colour, linewidth=2, alpha=0.5)
        axes.plot(_mean(values), place, color=colour, marker=marker, markersize=7)
        axes.annotate(
            f"{_mean(values):.1f}",
            (max(values), place),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.set_yticks(range(len(results)), list(results))
    axes.set_ylim(len(results) - 0.5, -0.5)
    axes.margins(x=0.12)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
