"""The figure: BLEU by source length, and BLEU of all entries."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from recipes.lineage.entries import ENTRIES
from recipes.lineage.lengths import BUCKET_NAMES
from recipes.lineage.results import Results
from recipes.runner.results import mean


class Style(NamedTuple):
    """The line style of a main system; its colour is that of its group."""

    marker: str
    dashes: Any = "-"


# The palette of Okabe and Ito, for readers with any colour vision.
GROUPS = {
    "statistical": "#7f6000",
    "one vector for the source": "#d55e00",
    "recurrent with attention": "#0072b2",
    "convolutional": "#009e73",
    "Transformer": "#a8518a",
}
MAIN = {
    "dictionary": Style("o", (0, (1, 1))),
    "brown1993": Style("s", (0, (1, 1))),
    "koehn2003": Style("D", (0, (1, 1))),
    "cho2014": Style("o"),
    "sutskever2014": Style("s", (0, (5, 2))),
    "bahdanau2015": Style("D"),
    "luong2015": Style("^", (0, (5, 2))),
    "gehring2017": Style("v"),
    "vaswani2017-base": Style("P"),
}
STATISTICAL = {"dictionary", "brown1993", "koehn2003"}
WITHOUT_ATTENTION = {"cho2014", "sutskever2014", "sutskever2014-forward"}
FAMILIES = {"recurrent": "recurrent with attention", "convolutional": "convolutional", "transformer": "Transformer"}
OTHERS = "#595959"
LEAST_GAP = 0.045  # of the axis, between the names at the ends of two lines


def draw_figure(path: Path, results: Results, *, unit: str = "words") -> None:
    """Draws the figure; lengths are counted in `unit`."""
    figure = Figure(figsize=(13, max(4.6, 1.5 + 0.3 * len(results))), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
    for name in (name for name in MAIN if name in results):
        _by_length(left, name, results)
    left.set_xticks(range(len(BUCKET_NAMES)), BUCKET_NAMES)
    left.set_xlim(-0.2, len(BUCKET_NAMES) - 1 + 0.1)
    left.set_ylim(bottom=0)
    left.set_xlabel(f"length of the source in {unit}")
    left.set_ylabel("BLEU, lowercased")
    left.set_title("By length: single sentences, and neighbours joined by 2, 3 and 4", loc="left", fontsize=11)
    _name_ends(left, results)
    _bars(right, results)
    right.set_xlabel("BLEU, lowercased")
    right.set_title("The test set: mean, and range over seeds", loc="left", fontsize=11)
    for axes, along in ((left, "y"), (right, "x")):
        axes.grid(axis=along, alpha=0.3)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    groups = dict.fromkeys(filter(None, map(group_of, results)))
    handles = [Patch(color=GROUPS[group], label=group) for group in groups]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(GROUPS), frameon=False, fontsize=10)
    figure.savefig(path, dpi=130)


def group_of(name: str) -> str | None:
    """The entry's group in GROUPS."""
    if name in STATISTICAL:
        return "statistical"
    if name in WITHOUT_ATTENTION:
        return "one vector for the source"
    return next((FAMILIES[entry.family] for entry in ENTRIES if entry.name == name), None)


def spread_out(heights: Sequence[float], *, gap: float) -> list[float]:
    """The nearest heights in the same order that are at least `gap` apart.

    >>> spread_out([5.0, 1.0, 5.0], gap=1.0)
    [4.5, 1.0, 5.5]
    """
    blocks: list[tuple[float, list[int]]] = []  # centre and places of labels that touch, lowest first
    for place in sorted(range(len(heights)), key=lambda place: heights[place]):
        blocks.append((heights[place], [place]))
        while len(blocks) > 1 and _touches(*blocks[-2:], gap=gap):
            (_, upper), (_, lower) = blocks.pop(), blocks.pop()
            places = lower + upper
            blocks.append((sum(heights[member] for member in places) / len(places), places))
    spread = list(heights)
    for middle, places in blocks:
        for number, place in enumerate(places):
            spread[place] = middle + (number - (len(places) - 1) / 2) * gap
    return spread


def _touches(lower: tuple[float, list[int]], upper: tuple[float, list[int]], *, gap: float) -> bool:
    return upper[0] - lower[0] < gap * (len(lower[1]) + len(upper[1])) / 2


def _by_length(axes: Any, name: str, results: Results) -> None:
    """Draws a line through the means, and a band from the lowest to the highest seed."""
    columns = _columns(name, results)
    places = [place for place, _ in columns]
    colour, style = _colour(name), MAIN[name]
    means = [mean(column) for _, column in columns]
    axes.plot(places, means, color=colour, marker=style.marker, linestyle=style.dashes, linewidth=2, markersize=7)
    lows, highs = ([bound(column) for _, column in columns] for bound in (min, max))
    axes.fill_between(places, lows, highs, color=colour, alpha=0.13, linewidth=0)


def _name_ends(axes: Any, results: Results) -> None:
    """Labels every line at its end instead of in a legend."""
    ends = {name: columns[-1] for name in MAIN if name in results and (columns := _columns(name, results))}
    if not ends:
        axes.text(0.5, 0.5, "no main system", transform=axes.transAxes, ha="center", color=OTHERS)
        return
    low, high = axes.get_ylim()
    heights = spread_out([mean(column) for _, column in ends.values()], gap=LEAST_GAP * (high - low))
    for (name, (place, _)), height in zip(ends.items(), heights, strict=True):
        axes.annotate(
            name,
            (place, height),
            xytext=(10, 0),
            textcoords="offset points",
            va="center",
            fontsize=10,
            color=_colour(name),
            annotation_clip=False,
        )


def _bars(axes: Any, results: Results) -> None:
    """Draws one bar per entry, with the range over seeds and the mean as a number."""
    for place, (name, seeds) in enumerate(results.items()):
        values = [result["bleu_lowercased"] for result in seeds.values()]
        middle = mean(values)
        axes.barh(place, middle, height=0.72, color=_colour(name), alpha=0.8)
        range_ = [[middle - min(values)], [max(values) - middle]]
        axes.errorbar(middle, place, xerr=range_, color="black", capsize=3, linewidth=1.2)
        axes.annotate(
            f"{middle:.1f}", (max(values), place), xytext=(6, 0), textcoords="offset points", va="center", fontsize=9
        )
    axes.set_yticks(range(len(results)), list(results))
    axes.set_ylim(len(results) - 0.4, -0.6)
    axes.margins(x=0.1)


def _columns(name: str, results: Results) -> list[tuple[int, list[float]]]:
    """The buckets in which every seed has a score, and these scores."""
    seeds = results[name].values()
    columns = [[result["lengths"][bucket]["bleu_lowercased"] for result in seeds] for bucket in BUCKET_NAMES]
    return [(place, column) for place, column in enumerate(columns) if None not in column]


def _colour(name: str) -> str:
    group = group_of(name)
    return GROUPS[group] if group else OTHERS
