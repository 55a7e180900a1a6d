"""Pictures of a text under a language model and of a tagged sentence, if matplotlib is installed."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from calque.errors import DataError
from calque.inspection.attention_maps import AttentionMap, mean_weights
from calque.inspection.language_model import TextView
from calque.inspection.pictures import ACCENT, draw_beam, draw_heads, heat_map, plain, save_figure
from calque.inspection.tagging import TaggingView, Transitions
from calque.inspection.translation import Saliency

SECOND = "#d1661b"
MOST_LABELS = 40
"""The number of labels up to which a picture of marginals shows all; above it, improbable labels are left out."""
LARGEST = 40.0  # inches


def draw_text(path: Path, view: TextView, *, picture: str) -> list[str]:
    """Draws an inspected text as an SVG or PNG file; `picture` names one of TEXT_PICTURES. Returns warnings."""
    return save_figure(path, lambda figure: TEXT_PICTURES[picture](figure, view))


def draw_tagging(path: Path, view: TaggingView, *, picture: str) -> list[str]:
    """Draws a tagged sentence as an SVG or PNG file; `picture` names one of TAGGING_PICTURES. Returns warnings."""
    return save_figure(path, lambda figure: TAGGING_PICTURES[picture](figure, view))


def _draw_next(figure: Any, view: TextView) -> None:
    """Draws the probabilities of the most likely next pieces after the text, as bars."""
    shares = [math.exp(item.log_prob) for item in view.next]
    figure.set_size_inches(6.4, 1.0 + 0.28 * len(shares))
    axes = figure.subplots()
    bars = axes.barh(range(len(shares)), shares, height=0.7, color=ACCENT)
    axes.bar_label(bars, labels=[f"{share:.3f}" for share in shares], padding=3, fontsize=8)
    axes.set_yticks(range(len(shares)), [plain(item.piece) for item in view.next], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, min(1.15, 1.18 * max(shares)))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8)
    shown = "".join(character if character.isprintable() else "·" for character in view.text)
    shown = shown if len(shown) <= 60 else f"…{shown[-59:]}"
    axes.set_title(f"probability of the next piece after “{shown}”", loc="left", fontsize=9)


def _draw_pieces(figure: Any, view: TextView) -> None:
    """Draws the surprisal −log₂ P of each piece, and the entropy of the distribution at its position."""
    bits = [-step.log_prob / math.log(2) for step in view.steps]
    entropies = [step.entropy / math.log(2) for step in view.steps]
    figure.set_size_inches(min(1.8 + 0.34 * len(bits), LARGEST), 3.0)
    axes = figure.subplots()
    axes.bar(range(len(bits)), bits, width=0.7, color=ACCENT, label="surprisal, −log₂ P")
    axes.plot(range(len(bits)), entropies, "_", color=SECOND, markersize=11, markeredgewidth=2, label="entropy")
    axes.set_xticks(range(len(bits)), [plain(piece) for piece in view.pieces], rotation=90, fontsize=9)
    axes.set_ylabel("bits", fontsize=9)
    axes.set_ylim(0, 1.25 * max([*bits, *entropies]))
    axes.tick_params(axis="x", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)
    axes.set_title(f"perplexity {view.perplexity.per_token:.2f} per piece", loc="left", fontsize=9)


def _draw_text_attention(figure: Any, view: TextView) -> None:
    _draw_contributions(figure, view.maps, view.saliency, rows=view.pieces, columns=view.inputs)


def _draw_text_beam(figure: Any, view: TextView) -> None:
    if view.continuation is None or view.continuation.beam is None:
        raise DataError(
            "there is no beam tree to draw, as no continuation was searched for; ask for one with --continuation"
        )
    draw_beam(figure, view.continuation.beam)


def _draw_marginals(figure: Any, view: TaggingView) -> None:
    """Draws the probability of every label of every word; frames mark the best and second-best label sequence."""
    kept = _shown_labels(view)
    names = [view.labels[label] for label in kept]
    width, height = max(5.6, 2.6 + 0.36 * len(kept)), 1.6 + 0.3 * len(view.words)
    figure.set_size_inches(min(width, LARGEST), min(height, LARGEST))
    axes = figure.subplots()
    heat_map(axes, view.marginals[:, kept], rows=view.words, columns=names)
    for word, label in enumerate(view.best.labels):
        _frame(axes, word, names.index(label), style="-")
    if view.runner_up is not None:
        for word in view.changes:
            _frame(axes, word, names.index(view.runner_up.labels[word]), style=":")
    frames = "framed: the best sequence"
    if view.changes:
        frames += "; dotted: the second, where it differs"
    axes.set_title(f"probabilities of labels\n{frames}", loc="left", fontsize=9)


def _shown_labels(view: TaggingView) -> list[int]:
    """Indices of the labels to draw: all or, if that is too many, the most probable and those of the best sequences."""
    if len(view.labels) <= MOST_LABELS:
        return list(range(len(view.labels)))
    needed = {*view.best.labels, *(() if view.runner_up is None else view.runner_up.labels)}
    order = view.marginals.max(dim=0).values.argsort(descending=True).tolist()
    likely = set(order[:MOST_LABELS])
    return [label for label, name in enumerate(view.labels) if name in needed or label in likely]


def _frame(axes: Any, row: int, column: int, *, style: str) -> None:
    left, right, top, bottom = column - 0.46, column + 0.46, row - 0.46, row + 0.46
    sides = [left, right, right, left, left], [top, top, bottom, bottom, top]
    axes.plot(*sides, color=SECOND, linestyle=style, linewidth=1.8)


def _draw_transitions(figure: Any, view: TaggingView) -> None:
    """Draws the CRF's scores of transitions, first labels and last labels; × marks those that are not allowed."""
    if view.transitions is None:
        raise DataError("this model predicts labels independently of each other, so there are no transitions to draw")
    weights, allowed = _with_ends(view.transitions)
    rows, columns = ["start", *view.labels], [*view.labels, "end"]
    side = min(2.4 + 0.36 * len(columns), LARGEST)
    figure.set_size_inches(side + 0.6, side)
    axes = figure.subplots()
    limit = float(weights.abs().max()) or 1.0
    image = axes.imshow(weights.numpy(), cmap="RdBu", vmin=-limit, vmax=limit)
    for row, column in (~allowed).nonzero().tolist():
        if (row, column) != (0, len(columns) - 1):  # from the start to the end: a sentence without words
            colour = "white" if abs(float(weights[row, column])) > 0.6 * limit else "black"
            axes.text(column, row, "×", ha="center", va="center", fontsize=11, color=colour, in_layout=False)
    axes.set_xticks(range(len(columns)), [plain(name) for name in columns], rotation=90, fontsize=8)
    axes.set_yticks(range(len(rows)), [plain(name) for name in rows], fontsize=8)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_ylabel("from", fontsize=9)
    axes.set_title("transition scores, from row to column; ×: not allowed", loc="left", fontsize=9)
    figure.colorbar(image, ax=axes, shrink=0.6, aspect=30)


def _with_ends(transitions: Transitions) -> tuple[Tensor, Tensor]:
    """The transition scores of Y labels, start and end included, and a mask of those allowed, [Y+1,Y+1] each.

    The first row has the scores of the first label of a sentence, the last column those of its last label.
    """

    def joined(middle: Tensor, start: Tensor, end: Tensor, *, corner: Tensor) -> Tensor:
        return torch.cat([torch.cat([start, corner])[None], torch.cat([middle, end[:, None]], dim=1)])

    weights = joined(transitions.weights, transitions.start, transitions.end, corner=transitions.start.new_zeros(1))
    allowed = transitions.allowed
    return weights, joined(allowed.transitions, allowed.start, allowed.end, corner=allowed.start.new_zeros(1))


def _draw_tagging_attention(figure: Any, view: TaggingView) -> None:
    rows = [f"{word} / {label}" for word, label in zip(view.words, view.predicted, strict=True)]
    _draw_contributions(figure, view.maps, view.saliency, rows=rows, columns=view.words)


def _draw_contributions(
    figure: Any,
    maps: Sequence[AttentionMap],
    saliency: Sequence[Saliency],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
) -> None:
    """Draws a heat map of attention, averaged over layers and heads, or of saliency if the model has no attention."""
    if maps:
        weights = mean_weights(maps)
        title = f"attention, mean of {sum(item.heads for item in maps)} heads in {len(maps)} layers"
    elif saliency:
        weights, title = saliency[-1].weights, f"{saliency[-1].method} (this model has no attention)"
    else:
        raise DataError("there is neither attention nor saliency to draw")
    figure.set_size_inches(min(2.4 + 0.32 * len(columns), LARGEST), min(1.7 + 0.28 * len(rows), LARGEST))
    axes = figure.subplots()
    heat_map(axes, weights, rows=rows, columns=columns)
    axes.set_title(title, loc="left", fontsize=9)


TEXT_PICTURES: dict[str, Callable[[Any, TextView], None]] = {
    "next": _draw_next,
    "pieces": _draw_pieces,
    "attention": _draw_text_attention,
    "heads": lambda figure, view: draw_heads(figure, view.maps),
    "beam": _draw_text_beam,
}
"""Pictures of a text by name: next pieces, surprisal of each piece, attention or saliency, all heads, beam tree."""

TAGGING_PICTURES: dict[str, Callable[[Any, TaggingView], None]] = {
    "marginals": _draw_marginals,
    "transitions": _draw_transitions,
    "attention": _draw_tagging_attention,
    "heads": lambda figure, view: draw_heads(figure, view.maps),
}
"""Pictures of a tagged sentence by name; `attention` draws saliency if the model has no attention."""
