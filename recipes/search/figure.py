"""The figure: BLEU and length ratio by beam width."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# The palette of Okabe and Ito, for readers with any colour vision; markers and dashes also distinguish the lines.
STYLES = {
    "none": ("#000000", "o", "-"),
    "coverage": ("#e69f00", "s", "-"),
    "end": ("#d55e00", "v", "-"),
    "length": ("#0072b2", "D", "--"),
    "plain": ("#56b4e9", "^", "--"),
    "reward": ("#009e73", "P", ":"),
    "together": ("#cc79a7", "X", "-."),
}

FALLS = "end"  # so far that the other lines would lie on top of each other


def draw_beams(path: Path, lines: Mapping[str, Sequence[Mapping[str, Any]]], *, labels: Mapping[str, str]) -> None:
    """Draws one line per setting; BLEU that falls far below all others is cut off."""
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for name, (colour, marker, dashes) in STYLES.items():
        if name in lines:
            beams = [row["beam"] for row in lines[name]]
            for axes, key in ((left, "bleu_lowercased"), (right, "ratio")):
                values = [row[key] for row in lines[name]]
                axes.plot(
                    beams,
                    values,
                    color=colour,
                    marker=marker,
                    linestyle=dashes,
                    markersize=6,
                    linewidth=1.7,
                    label=labels[name],
                )
    right.axhline(1, color="#808080", linewidth=1)
    for axes, title in ((left, "BLEU, lowercased"), (right, "words of translations / words of references")):
        axes.set_xscale("log", base=2)
        ticks = sorted({row["beam"] for rows in lines.values() for row in rows})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("beam")
        axes.set_title(title, loc="left", fontsize=10)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    others = [row["bleu_lowercased"] for name, rows in lines.items() if name != FALLS for row in rows]
    lowest = min((row["bleu_lowercased"] for row in lines.get(FALLS, ())), default=100.0)
    if others and lowest < min(others) - 1:
        left.set_ylim(bottom=min(others) - 1)
        left.set_title(f"BLEU, lowercased ({FALLS} falls to {lowest:.1f}, out of the picture)", loc="left", fontsize=10)
    handles, names = left.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right center", frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)
