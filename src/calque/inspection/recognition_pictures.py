"""Pictures of an inspected recording over time: features with the transcript, CTC posteriors, attention."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from calque.errors import DataError
from calque.inspection.pictures import ACCENT, plain, save_figure
from calque.inspection.recognition import RecordingView

COLOURS = ("#1f5a8a", "#d1661b", "#3b8132", "#8a3ea0", "#b8860b", "#0f8b8d", "#a83232", "#5b5b9e")
TICKS = (125, 250, 500, 1000, 2000, 4000, 8000, 16000)  # Hz
MOST_NAMES = 60  # of tokens that are written below the features

Panel = tuple[Callable[[Any, RecordingView], None], float]
"""A function that draws a panel on axes, and the height of the panel in inches."""


def draw_recording(path: Path, view: RecordingView, *, picture: str) -> list[str]:
    """Draws an inspected recording; `picture` names one of RECORDING_PICTURES. Returns warnings."""
    return save_figure(path, lambda figure: RECORDING_PICTURES[picture](figure, view))


def _draw_all(figure: Any, view: RecordingView) -> None:
    panels: list[Panel] = [(_features, 2.6)]
    panels += [(_posteriors, 1.9)] if view.posteriors is not None else []
    panels += [(_attention, _attention_height(view))] if view.attention is not None else []
    _stack(figure, view, panels)


def _draw_features(figure: Any, view: RecordingView) -> None:
    _stack(figure, view, [(_features, 2.8)])


def _draw_posteriors(figure: Any, view: RecordingView) -> None:
    if view.posteriors is None:
        raise DataError("this model has no CTC, so there are no posteriors to draw")
    _stack(figure, view, [(_posteriors, 2.6)])


def _draw_attention(figure: Any, view: RecordingView) -> None:
    if view.attention is None:
        raise DataError("this model has no decoder, so there is no attention to draw")
    _stack(figure, view, [(_attention, _attention_height(view))])


def _attention_height(view: RecordingView) -> float:
    return min(20.0, 0.8 + 0.24 * len(view.steps))


def _stack(figure: Any, view: RecordingView, panels: list[Panel]) -> None:
    """Draws panels one below the other, with a common time axis."""
    heights = [height for _, height in panels]
    figure.set_size_inches(min(40.0, max(6.4, 2.0 + 2.2 * view.seconds)), 0.7 + sum(heights) + 0.2 * len(heights))
    grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (draw, _) in zip(grid, panels, strict=True):
        draw(axes, view)
        axes.set_xlim(0, view.seconds)
        axes.tick_params(labelsize=8)
    grid[-1].set_xlabel("seconds", fontsize=9)


def _features(axes: Any, view: RecordingView) -> None:
    """Draws the log-mel features, with the words above them and lines at the boundaries of tokens."""
    frames, bands = view.features.shape
    extent = (0, frames * view.frame, -0.5, bands - 0.5)
    axes.imshow(view.features.T.numpy(), origin="lower", aspect="auto", cmap="magma", extent=extent)
    axes.set_yticks(*_frequency_ticks(view))
    axes.set_ylabel("Hz", fontsize=9)
    names = [(word.word, word.start, min(word.end, view.seconds)) for word in view.words]
    if len(view.tokens) != len(names) and len(view.tokens) <= MOST_NAMES:
        for token in view.tokens:
            axes.axvline(token.first * view.position, color="white", linewidth=0.5, alpha=0.5)
            middle = (token.first + token.end) / 2 * view.position
            axes.text(middle, 0.5, plain(token.piece), color="white", fontsize=7, ha="center", va="bottom")
    for name, start, end in names:
        for edge in (start, end):
            axes.axvline(edge, color="white", linewidth=0.9)
        gap = 0.06 * (end - start)
        bar = {"color": ACCENT, "linewidth": 3, "clip_on": False, "solid_capstyle": "butt"}
        axes.plot([start + gap, end - gap], [bands, bands], **bar)
        axes.text((start + end) / 2, 1.015 * bands + 0.5, plain(name), fontsize=9, ha="center", va="bottom")
    axes.set_ylim(-0.5, bands - 0.5)
    axes.set_title("log-mel features, and when each word is heard", loc="left", fontsize=9, pad=18)


def _frequency_ticks(view: RecordingView) -> tuple[list[int], list[str]]:
    """The ticks of the frequency axis: the mel bands nearest to round frequencies, and these frequencies as text."""
    places: dict[int, str] = {}
    for frequency in TICKS:
        if view.frequencies[0] <= frequency <= view.frequencies[-1]:
            distances = [abs(other - frequency) for other in view.frequencies]
            places[distances.index(min(distances))] = f"{frequency:,}"
    return list(places), list(places.values())


def _posteriors(axes: Any, view: RecordingView) -> None:
    """Draws the probability of each label over time, with its name, and the best alignment as bars above."""
    assert view.posteriors is not None
    times = [(place + 0.5) * view.position for place in range(len(view.posteriors))]
    for number in range(len(view.labels)):
        is_blank = number == 0
        colour = "0.7" if is_blank else COLOURS[(number - 1) % len(COLOURS)]
        axes.plot(times, view.posteriors[:, number].tolist(), color=colour, linewidth=1.3, ls=":" if is_blank else "-")
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(view.labels[1:])}
    for token in view.tokens:
        colour = colours.get(token.piece, "0.3")
        start, end = token.first * view.position, min(token.end * view.position, view.seconds)
        axes.plot([start, end], [1.05, 1.05], color=colour, linewidth=4, solid_capstyle="butt")
        axes.text((start + end) / 2, 1.09, plain(token.piece), color=colour, fontsize=8, ha="center", va="bottom")
    spoken = {token.piece for token in view.tokens}
    for number, name in enumerate(view.labels[1:], start=1):
        if name not in spoken:
            place = int(view.posteriors[:, number].argmax())
            height = float(view.posteriors[place, number])
            axes.text(times[place], height + 0.02, plain(name), color=colours[name], fontsize=8, ha="center")
    axes.set_ylim(0, 1.25)
    axes.set_yticks([0, 0.5, 1])
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylabel("probability", fontsize=9)
    legend = "posteriors of CTC (dotted: the blank); bars: the best alignment"
    axes.set_title(legend, loc="left", fontsize=9)


def _attention(axes: Any, view: RecordingView) -> None:
    """Draws the attention of the decoder over time, one row per token."""
    assert view.attention is not None
    rows, positions = view.attention.shape
    extent = (0, positions * view.position, rows - 0.5, -0.5)
    axes.imshow(view.attention.numpy(), aspect="auto", cmap="Blues", vmin=0, extent=extent, interpolation="nearest")
    axes.set_yticks(range(rows), [plain(step.piece) for step in view.steps])
    axes.spines[:].set_visible(False)
    axes.set_title("attention of the decoder", loc="left", fontsize=9)


RECORDING_PICTURES: dict[str, Callable[[Any, RecordingView], None]] = {
    "recording": _draw_all,
    "spectrogram": _draw_features,
    "posteriors": _draw_posteriors,
    "attention": _draw_attention,
}
"""The pictures of a recording, by name."""
