"""Pictures of a translation, if matplotlib is installed: attention or saliency, all heads, the beam tree."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from calque.errors import DataError
from calque.inspection.attention_maps import MEAN, AttentionMap
from calque.inspection.beam_view import BeamView
from calque.inspection.translation import SentenceView

ACCENT = "#1f5a8a"
STEPS_PER_ROW = 12  # of a beam tree
FONTS = (
    "DejaVu Sans",
    "Noto Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Arial Unicode MS",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
)
"""Fonts that together cover most scripts; those that are installed are used, in this order."""


def draw(path: Path, view: SentenceView, *, picture: str) -> list[str]:
    """Draws a translation as an SVG or PNG file; `picture` names one of PICTURES. Returns warnings."""
    return save_figure(path, lambda figure: PICTURES[picture](figure, view))


def save_figure(path: Path, paint: Callable[[Any], None]) -> list[str]:
    """Saves what `paint` draws on a figure, as SVG or PNG depending on the file's suffix.

    Returns warnings about missing fonts. Text in an SVG stays text, so that viewers can use their own fonts.
    """
    try:
        from matplotlib import font_manager, rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise DataError('pictures need matplotlib; install it with: pip install "calque[plots]"') from None
    installed = {font.name for font in font_manager.fontManager.ttflist}
    settings: Any = {
        "font.family": [name for name in FONTS if name in installed],
        "svg.fonttype": "none",
        "svg.hashsalt": "calque",
        "text.parse_math": False,
    }
    with rc_context(settings), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        paint(figure)
        is_svg = path.suffix.lower() == ".svg"
        figure.savefig(path, dpi=140, metadata={"Date": None} if is_svg else None)
    is_missing = any("missing from" in str(warning.message) for warning in caught) and not is_svg
    return (
        [f"{path}: no installed font has all characters of this text; write an SVG and open it in a browser"]
        if is_missing
        else []
    )


def _draw_attention(figure: Any, view: SentenceView) -> None:
    """Draws the decoder's mean attention to the source pieces or, if the model has no attention, saliency."""
    axes = figure.subplots()
    if view.maps:
        weights, title = view.maps[0].weights[0], "attention"
    elif view.saliency:
        weights, title = view.saliency[-1].weights, f"{view.saliency[-1].method} (this model has no attention)"
    else:
        raise DataError("there is neither attention nor saliency to draw")
    figure.set_size_inches(*_size(view))
    heat_map(axes, weights, rows=view.target_pieces, columns=view.source_pieces)
    axes.set_title(title, loc="left", fontsize=10)


def _draw_heads(figure: Any, view: SentenceView) -> None:
    draw_heads(figure, view.maps)


def draw_heads(figure: Any, all_maps: Sequence[AttentionMap]) -> None:
    """Draws the attention maps of all layers and heads: one row of small maps per layer."""
    maps = [item for item in all_maps if item.name != MEAN]
    if not maps:
        raise DataError("this model has no attention, so there are no heads to draw")
    heads = max(item.heads for item in maps)
    figure.set_size_inches(1.2 + 1.5 * heads, 0.4 + 1.6 * len(maps))
    grid = figure.subplots(len(maps), heads, squeeze=False)
    for row, item in zip(grid, maps, strict=True):
        for head, axes in enumerate(row):
            axes.set_axis_off()
            if head < item.heads:
                axes.imshow(item.weights[head].numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto")
        row[0].set_title(f"{_map_name(item.kind)}, layer {item.layer}", loc="left", fontsize=8)


def _map_name(kind: str) -> str:
    return {"source": "decoder to source", "encoder": "encoder", "decoder": "decoder to itself"}[kind]


def _draw_beam(figure: Any, view: SentenceView) -> None:
    if view.beam is None:
        raise DataError("there is no beam tree: the target was given, or the method is not beam search")
    draw_beam(figure, view.beam)


def draw_beam(figure: Any, beam: BeamView) -> None:
    """Draws a beam tree: the candidates of each step as a column, best at the top, linked to their parents.

    A long search is drawn as several rows of columns, one below the other. Links from the row above begin at the
    margin.
    """
    deepest = max(len(step.candidates) for step in beam.tree.steps)
    height = deepest + 1.5  # of a row of columns, with the gap below it
    places = _places(beam, height=height)
    rows = -(-len(beam.tree.steps) // STEPS_PER_ROW)
    width = min(len(beam.tree.steps), STEPS_PER_ROW)
    figure.set_size_inches(1 + 1.15 * width, 0.6 + 0.24 * height * rows)
    axes = figure.subplots()
    axes.set_axis_off()
    answer = set(beam.answer)
    for number, step in enumerate(beam.tree.steps, start=1):
        column, top = places[step.candidates[0].id] if step.candidates else (0, 0.0)
        axes.text(column + 0.04, top - 0.9, str(number), color="0.5", fontsize=7, va="center")
        for candidate in step.candidates:
            column, row = places[candidate.id]
            on_path = candidate.id in answer
            if candidate.parent in places and candidate.fate != "dropped":
                parent_column, parent_row = places[candidate.parent]
                is_above = parent_column > column
                axes.plot(
                    [column - 0.2, column] if is_above else [parent_column + 0.8, column],
                    [row, row] if is_above else [parent_row, row],
                    color=ACCENT if on_path else "0.75",
                    linewidth=1.6 if on_path else 0.7,
                )
            colour = ACCENT if on_path else "0.15" if candidate.fate != "dropped" else "0.65"
            mark = {"kept": "", "ended": " ■", "dropped": " ×"}[candidate.fate]
            text = f"{plain(beam.pieces[candidate.token])} {candidate.log_prob:.1f}{mark}"
            axes.text(column + 0.04, row, text, color=colour, fontsize=7, va="center", clip_on=False)
    axes.set_xlim(-0.25, width + 0.2)
    axes.set_ylim(height * rows - 1.5, -1.5)
    legend = f"beam {beam.width}: candidates with log-probabilities, best first; ■ ended, × dropped, blue: the answer"
    axes.set_title(legend, loc="left", fontsize=8)


def _places(beam: BeamView, *, height: float) -> dict[int, tuple[int, float]]:
    """Where to draw a beam tree: maps the id of each candidate to its column and its vertical position.

    The steps of a long search are wrapped into rows of STEPS_PER_ROW columns, each `height` high.
    """
    return {
        candidate.id: (number % STEPS_PER_ROW, number // STEPS_PER_ROW * height + line)
        for number, step in enumerate(beam.tree.steps)
        for line, candidate in enumerate(step.candidates)
    }


def heat_map(axes: Any, weights: Tensor, *, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Draws weights as a heat map: non-negative ones in one hue, signed ones in two, with white at zero."""
    values = weights.float().numpy()
    limit = float(abs(values).max()) or 1.0
    if values.min() < 0:
        image = axes.imshow(values, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
    else:
        image = axes.imshow(values, cmap="Blues", vmin=0, vmax=max(1.0, limit), aspect="auto")
    axes.set_xticks(range(len(columns)), [plain(piece) for piece in columns], rotation=90, fontsize=9)
    axes.set_yticks(range(len(rows)), [plain(piece) for piece in rows], fontsize=9)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.figure.colorbar(image, ax=axes, shrink=0.6, aspect=30)


def _size(view: SentenceView) -> tuple[float, float]:
    width, height = 2.2 + 0.32 * len(view.source_pieces), 1.6 + 0.28 * len(view.target_pieces)
    return min(width, 40.0), min(height, 40.0)


def plain(piece: str) -> str:
    """A piece as pictures show it: control characters visible, and no longer than 24 characters."""
    text = "".join(character if character.isprintable() else "·" for character in piece)
    return text if len(text) <= 24 else f"{text[:23]}…"


PICTURES: dict[str, Callable[[Any, SentenceView], None]] = {
    "attention": _draw_attention,
    "heads": _draw_heads,
    "beam": _draw_beam,
}
