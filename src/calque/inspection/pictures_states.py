"""A picture of encoder and decoder states in two dimensions, if matplotlib is installed."""

import math
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

from calque.inspection.pictures import save_figure
from calque.inspection.state_index import SIDES, Side
from calque.inspection.states import SentenceStates, SideStates

COLOURS = ("#33658a", "#c8553d", "#588157", "#7b2d8b")
"""The colours of the first, second, … sentence."""

BACKGROUND, NEAR = "#c9ced3", "#f6ae2d"
_TITLES = {"encoder": "encoder, source pieces", "decoder": "decoder, target pieces with their positions"}
_NAME = 70  # characters of a sentence in the legend
_LEGIBLE = 40  # labelled neighbours of a panel
_NEAREST = 1  # neighbours of a point that are labelled


def draw_states(path: Path, sentences: Sequence[SentenceStates], *, names: Sequence[str] = ()) -> list[str]:
    """Draws the states of one or more sentences as an SVG or PNG file; returns warnings, such as missing fonts.

    Sentences whose nearest training states come from the same index are drawn on the same axes; each index has its own
    row of axes. `names` label the sentences.
    """
    rows: dict[str, list[int]] = {}
    for place, states in enumerate(sentences):
        rows.setdefault(states.index_id, []).append(place)

    def paint(figure: Any) -> None:
        figure.set_size_inches(13, 6.2 * len(rows))
        panels = figure.subplots(len(rows), len(SIDES), squeeze=False)
        for row, places in zip(panels, rows.values(), strict=True):
            for axes, side in zip(row, SIDES, strict=True):
                _panel(axes, side, sentences, places=places, names=names)
        known = {
            label: handle
            for axes in panels.flat
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        columns = len(known) if len(names) < 2 else 2
        figure.legend(known.values(), known, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)

    return save_figure(path, paint)


def _panel(
    axes: Any, side: Side, sentences: Sequence[SentenceStates], *, places: Sequence[int], names: Sequence[str]
) -> None:
    parts = [sentences[place].side(side) for place in places]
    background = parts[0].background
    axes.scatter(*zip(*background, strict=True), s=6, color=BACKGROUND, linewidths=0, label="training states", zorder=1)
    for place, part in zip(places, parts, strict=True):
        colour = COLOURS[place % len(COLOURS)]
        name = shorten(names[place], width=_NAME, placeholder=" …") if place < len(names) else None
        _neighbours(axes, part)
        xs, ys = zip(*(item.point for item in part.points), strict=True)
        axes.plot(xs, ys, color=colour, linewidth=1 if side == "decoder" else 0, alpha=0.6, zorder=3)
        axes.scatter(xs, ys, s=26, color=colour, zorder=4, label=name)
        for number, item in enumerate(part.points, start=1):
            text = f"{number} {item.piece}" if side == "decoder" else item.piece
            _label(axes, text, item.point, colour=colour, size=9, offset=(4, 4))
    first, second = parts[0].explained
    axes.set_title(_TITLES[side], loc="left", fontsize=10)
    axes.set_xlabel(f"first principal component, {first:.0%} of the variance", fontsize=8)
    axes.set_ylabel(f"second, {second:.0%}", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.1, y=0.06)  # room for labels


def _neighbours(axes: Any, part: SideStates) -> None:
    """Draws the training states nearest to each state of a sentence, with lines from that state to its neighbours.

    The nearest neighbour of each state is labelled with its piece, unless the sentence has more than _LEGIBLE states.
    """
    points = [neighbour.point for item in part.points for neighbour in item.neighbours]
    axes.scatter(*zip(*points, strict=True), s=14, color=NEAR, linewidths=0, zorder=2, label="nearest training states")
    xs, ys = [], []
    for item in part.points:
        for neighbour in item.neighbours:
            xs += [item.point[0], neighbour.point[0], math.nan]  # which ends a line
            ys += [item.point[1], neighbour.point[1], math.nan]
    axes.plot(xs, ys, color=NEAR, linewidth=0.7, alpha=0.7, zorder=2)
    labelled: set[tuple[str, int, int]] = set()
    for item in part.points:
        for rank, neighbour in enumerate(item.neighbours):
            key = (neighbour.piece, neighbour.sentence, neighbour.position)
            if rank < _NEAREST and len(part.points) <= _LEGIBLE and key not in labelled:
                labelled.add(key)
                _label(axes, neighbour.piece, neighbour.point, colour="#8a6100", size=7, offset=(4, -8))


def _label(
    axes: Any, text: str, point: tuple[float, float], *, colour: str, size: int, offset: tuple[int, int]
) -> None:
    label = axes.annotate(
        text,
        point,
        xytext=offset,
        textcoords="offset points",
        color=colour,
        fontsize=size,
        zorder=5,
    )
    label.set_in_layout(False)  # measuring every label takes longer than drawing them
