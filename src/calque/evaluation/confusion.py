"""Label accuracy per word, and the confusion matrix: as counts and, with matplotlib, as a figure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calque.errors import DataError
from calque.evaluation.spans import check_alignment

Confusion = Mapping[tuple[str, str], int]
"""The number of words with each (gold, predicted) pair of labels."""

_DRAWN = 60  # maximum number of labels with a row of their own
_SMALL = 20  # maximum number of labels drawn with large cells
_NAME = 24  # maximum length of a label's name in the figure, in characters


def count_confusions(predicted: Sequence[Sequence[str]], *, gold: Sequence[Sequence[str]]) -> Counter[tuple[str, str]]:
    """The counts of all (gold, predicted) pairs of labels, given both label sequences of every sentence."""
    check_alignment(predicted, gold=gold)
    counts = Counter[tuple[str, str]]()
    for labels, gold_labels in zip(predicted, gold, strict=True):
        counts.update(zip(gold_labels, labels, strict=True))
    return counts


def token_accuracy(counts: Confusion) -> float:
    """The share of words, between 0 and 1, whose predicted label equals the gold label."""
    words = _words(counts)
    return sum(count for (gold, predicted), count in counts.items() if gold == predicted) / words


def draw_confusion(path: Path, counts: Confusion, *, labels: Sequence[str] = ()) -> bool:
    """Draws the confusion matrix, with gold labels as rows; returns False if matplotlib is missing.

    Colours show shares of a row, on a square-root scale that keeps rare errors visible. Rows are in the order of
    `labels`, then by frequency; with more than 60 labels, the rarest share one row and one column.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.colors import PowerNorm
        from matplotlib.figure import Figure
    except ImportError:
        return False
    names, table = confusion_table(counts, labels=labels, most=_DRAWN)
    shares = table / table.sum(axis=1, keepdims=True).clip(min=1)
    size = (0.5 if len(names) <= _SMALL else 0.36) * len(names)  # inches
    figure = Figure(figsize=(max(size + 2.8, 4.5), max(size + 1.8, 2.5)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    image = axes.imshow(shares, cmap="Blues", norm=PowerNorm(0.5, vmin=0, vmax=1))
    _write_counts(axes, table, shares)
    _name_labels(axes, names)
    bar = figure.colorbar(image, ax=axes, shrink=min(1.0, 4 / size), ticks=[0, 0.01, 0.05, 0.2, 0.5, 1], pad=0.02)
    bar.ax.set_yticklabels(["0 %", "1 %", "5 %", "20 %", "50 %", "100 %"], fontsize=8)
    bar.set_label("share of the gold label's words", fontsize=8)
    bar.outline.set_visible(False)
    figure.savefig(path)
    return True


def confusion_table(
    counts: Confusion, *, labels: Sequence[str] = (), most: int
) -> tuple[list[str], np.ndarray[Any, np.dtype[np.int64]]]:
    """The confusion matrix: labels [Y] and counts [Y,Y], gold as rows; beyond `most` labels, the rarest are merged."""
    _words(counts)
    frequencies = Counter[str]()
    for (gold, predicted), count in counts.items():
        frequencies[gold] += count
        frequencies[predicted] += 0
    by_frequency = sorted(frequencies, key=lambda name: (-frequencies[name], name))
    frequent = set(by_frequency if len(by_frequency) <= most else by_frequency[: most - 1])
    order = list(dict.fromkeys((*labels, *by_frequency)))
    names = [name for name in order if name in frequent]
    indices = {name: index for index, name in enumerate(names)}
    if others := len(by_frequency) - len(names):
        names.append(f"{others} others")
    table = np.zeros((len(names), len(names)), dtype=np.int64)
    for (gold, predicted), count in counts.items():
        table[indices.get(gold, len(indices)), indices.get(predicted, len(indices))] += count
    return names, table


def _words(counts: Confusion) -> int:
    words = sum(counts.values())
    if not words:
        raise DataError("nothing to evaluate: there are no words")
    return words


def _write_counts(axes: Any, table: np.ndarray[Any, Any], shares: np.ndarray[Any, Any]) -> None:
    size, digits = (8.0, 5) if len(table) <= _SMALL else (6.5, 4)
    for row, column in np.argwhere(table):
        colour = "white" if shares[row, column] > 0.3 else "black"
        text = _short(int(table[row, column]), digits=digits)
        axes.text(column, row, text, ha="center", va="center", fontsize=size, color=colour, in_layout=False)


def _name_labels(axes: Any, names: Sequence[str]) -> None:
    shortened = [_shorten(name) for name in names]
    axes.set_xticks(range(len(names)), shortened, rotation=90, fontsize=8, parse_math=False)
    axes.set_yticks(range(len(names)), shortened, fontsize=8, parse_math=False)
    axes.set_xticks(np.arange(1, len(names)) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, len(names)) - 0.5, minor=True)
    axes.grid(which="minor", color="#dddddd", linewidth=0.5)
    is_large = len(names) > _SMALL  # then labels are shown on all four sides
    axes.tick_params(which="both", length=0, labeltop=is_large, labelright=is_large)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("predicted", fontsize=9, labelpad=8)
    axes.set_ylabel("gold", fontsize=9, labelpad=8)


def _shorten(name: str) -> str:
    half = _NAME // 2
    return name if len(name) <= _NAME else f"{name[: half - 1]}…{name[-half:]}"


def _short(count: int, *, digits: int) -> str:
    """A count in few characters: in full if it has at most `digits` digits, else as 12k, 999k, 1.2M or 34M."""
    if count < 10**digits:
        return str(count)
    if count < 999_500:
        return f"{count / 1000:.0f}k"
    return f"{count / 1e6:.1f}M" if count < 9_950_000 else f"{count / 1e6:.0f}M"
