"""How much of a captioner's attention lies inside an object's bounding box at the words that name the object.

Letters: T tokens, G rows and columns of a grid over a square image, S = G·G positions, row by row.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class SquareBox(NamedTuple):
    """A bounding box in a square image of side 1."""

    left: float
    top: float
    right: float
    bottom: float


class NamedAttention(NamedTuple):
    """How well the attention at the words that name one object matches the object's bounding box."""

    inside: float
    """The share of attention that lies inside the object's box."""
    area: float
    """The share of the image that the box covers: the value of `inside` for attention that is the same everywhere."""
    points: bool
    """Whether the position with the most attention has its centre in the box (pointing game: Zhang 2016)."""


class BoxAttention(NamedTuple):
    """The means of the fields of `NamedAttention` over all named objects, and the number of these objects."""

    inside: float
    area: float
    points: float
    names: int


def cell_shares(box: SquareBox, *, side: int) -> Array:
    """The share [S] of each grid cell's area that lies inside a box."""
    edges = np.linspace(0, 1, side + 1)

    def overlap(low: float, high: float) -> Array:
        widths: Array = np.clip(np.minimum(edges[1:], high) - np.maximum(edges[:-1], low), 0, None)
        return widths * side

    shares: Array = np.outer(overlap(box.top, box.bottom), overlap(box.left, box.right)).ravel()
    return shares


def named_attention(attention: Array, box: SquareBox, *, side: int) -> NamedAttention:
    """How much of the attention lies inside an object's box while a caption names the object.

    `attention` [T,S] has the weights of the T words that name the object over the S = side² cells of the image. The
    mean over the words is compared with the box. A cell that lies partly inside the box counts in proportion.
    """
    mean = attention.mean(axis=0)
    total = mean.sum()
    row, column = divmod(int(mean.argmax()), side)
    across, down = (column + 0.5) / side, (row + 0.5) / side
    return NamedAttention(
        inside=float((mean * cell_shares(box, side=side)).sum() / total) if total > 0 else 0.0,
        area=max(0.0, box.right - box.left) * max(0.0, box.bottom - box.top),
        points=box.left <= across <= box.right and box.top <= down <= box.bottom,
    )


def pieces_in_span(ends: Sequence[int], span: tuple[int, int]) -> list[int]:
    """The indices of the pieces that overlap a span of characters; piece n ends before character ends[n].

    >>> pieces_in_span([1, 5, 12], (6, 12))
    [2]
    """
    starts = [0, *ends[:-1]]
    return [
        place for place, (start, end) in enumerate(zip(starts, ends, strict=True)) if start < span[1] and end > span[0]
    ]


def mean_attention(named: Sequence[NamedAttention]) -> BoxAttention:
    """The means over all objects of the results of `named_attention`, and the number of objects; all 0 if none."""
    if not named:
        return BoxAttention(0.0, 0.0, 0.0, 0)
    inside, area, points = (float(np.mean([item[at] for item in named])) for at in range(3))
    return BoxAttention(inside, area, points, len(named))
