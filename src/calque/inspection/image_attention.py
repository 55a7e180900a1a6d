"""Pictures of attention over an image: one for each word of its caption.

Letters: G rows and columns of the grid, S = G·G cells, H height and width of the image in pixels.
"""

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.engine.types import Detail
from calque.evaluation.alignment import words_of
from calque.inspection.pictures import save_figure
from calque.text import Tokenizer

Array = NDArray[Any]

COLUMNS = 7  # pictures side by side


class AttendedWord(NamedTuple):
    """A word of a caption and its attention [S] to the cells of the image, averaged over its pieces."""

    word: str
    attention: Array


def words_with_attention(tokenizer: Tokenizer, detail: Detail) -> list[AttendedWord]:
    """The words of a caption with their attention; in scripts without spaces, the pieces instead of words."""
    assert detail.attention is not None
    rows = np.asarray(detail.attention, dtype=np.float64)
    numbers = words_of([tokenizer.starts_word(piece) for piece in detail.pieces])
    words = []
    for number in dict.fromkeys(numbers):
        places = [place for place, other in enumerate(numbers) if other == number]
        text = tokenizer.detokenise([detail.pieces[place] for place in places]).strip()
        words.append(AttendedWord(text, rows[places].mean(axis=0)))
    return words


def smooth_map(attention: Array, *, side: int, size: int) -> Array:
    """The attention [S] to the cells of a grid, interpolated to a map [H,H] whose maximum is 1."""
    grid = np.asarray(attention, dtype=np.float64).reshape(side, side)
    centres = (np.arange(size) + 0.5) * side / size - 0.5
    low = np.clip(np.floor(centres).astype(int), 0, side - 1)
    high = np.clip(low + 1, 0, side - 1)
    share = np.clip(centres - low, 0, 1)
    rows = grid[low] * (1 - share)[:, None] + grid[high] * share[:, None]
    smooth: Array = rows[:, low] * (1 - share) + rows[:, high] * share
    return smooth / max(float(smooth.max()), 1e-12)


def overlaid(pixels: Array, attention: Array, *, side: int) -> Array:
    """The image [H,H,3], darkened where a word does not attend."""
    light = 0.15 + 0.85 * smooth_map(attention, side=side, size=len(pixels))
    return np.round(pixels * light[..., None]).astype(np.uint8)


def draw_attention(path: Path, pixels: Array, words: Sequence[AttendedWord], *, side: int, title: str) -> list[str]:
    """Draws, as a PNG or SVG file, an image and a copy for every word of its caption that shows where the word attends.

    After Xu 2015, figure 3. Returns warnings about missing fonts.
    """
    return save_figure(path, lambda figure: _paint(figure, pixels, words, side=side, title=title))


def _paint(figure: Any, pixels: Array, words: Sequence[AttendedWord], *, side: int, title: str) -> None:
    panels = [("", pixels), *((word, overlaid(pixels, attention, side=side)) for word, attention in words)]
    rows, columns = ceil(len(panels) / COLUMNS), min(COLUMNS, len(panels))
    figure.set_size_inches(1.5 * columns, 1.75 * rows + 0.35)
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid:
        axes.set_axis_off()
    for axes, (word, picture) in zip(grid, panels, strict=False):
        axes.imshow(picture, interpolation="nearest")
        axes.set_title(word, fontsize=9)
