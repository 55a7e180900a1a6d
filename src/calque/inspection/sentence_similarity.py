"""Sentence vectors side by side: the cosines of sentences, and their coordinates on a map in two dimensions.

Letters: R sentences, C sentences that they are compared with, N points of the map: R + C, or R if both are the same.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from calque.engine.sentence_encoder import SentenceEncoder
from calque.errors import DataError
from calque.evaluation.nearest import similarities
from calque.evaluation.retrieval import partner_ranks
from calque.inspection.document import Weights, as_lists, model_summary, rounded
from calque.inspection.pictures import heat_map, plain, save_figure
from calque.inspection.projection import fit_projection

Array = NDArray[Any]

COLOURS = ("#1f5a8a", "#d1661b")
MOST = 60  # sentences of a side that a picture shows
LABELLED = 40  # points that have labels


class SimilarityView(NamedTuple):
    """Sentences (rows) compared with others (columns): partners such as translations or, without these, each other."""

    rows: list[str]
    columns: list[str]
    cosines: Array  # [R,C]
    points: Array  # [N,2], the rows and, if there are partners, the columns
    explained: tuple[float, float]  # the share of the variance in each direction
    ranks: list[int] | None  # the rank of each row's partner among the columns; None without partners

    @property
    def has_partners(self) -> bool:
        return self.ranks is not None

    def nearest(self, row: int) -> int:
        """The index of the column with the highest cosine to a row; without partners, of the nearest other sentence."""
        scores = self.cosines[row].copy()
        if not self.has_partners and len(scores) > 1:
            scores[row] = -np.inf
        return int(scores.argmax())


def inspect_similarity(
    encoder: SentenceEncoder, sources: Sequence[str], targets: Sequence[str] | None = None
) -> SimilarityView:
    """The cosines of each source with all `targets`, of which target n is the partner of source n.

    Without `targets`, the sources are compared with each other.

    >>> view = inspect_similarity(calque.load("runs/captions"), ["Two dogs run."], ["Zwei Hunde rennen."])
    >>> view.cosines
    array([[0.87]], dtype=float32)
    """
    rows = list(sources)
    if not rows or not all(text.strip() for text in (*rows, *(targets or ()))):
        raise DataError("a sentence without words has no vector to compare; leave it out")
    own = encoder.embed(rows, side="source", normalise=True)
    if targets is None:
        projection = fit_projection(own)
        return SimilarityView(rows, rows, similarities(own, own), projection(own), projection.explained, None)
    columns = list(targets)
    others = encoder.embed(columns, side="target", normalise=True)
    both = np.concatenate([own, others])
    projection = fit_projection(both)
    ranks = partner_ranks(own, others, sources=rows, targets=columns).to_target.tolist()
    return SimilarityView(rows, columns, similarities(own, others), projection(both), projection.explained, ranks)


def similarity_values(view: SimilarityView, *, weights: Weights = as_lists) -> dict[str, Any]:
    """Compared sentences as JSON values.

    {"text": a title, "rows", "columns", "cosines": W, "points": [[x, y]…], "explained": [two shares],
     "nearest": [a column per row], "ranks": null | [the rank of each row's partner]}

    W is a matrix as `weights` converts it. Points are those of the rows and, if there are partners, of the columns.
    """
    return {
        "text": " · ".join(view.rows[:3]),
        "rows": view.rows,
        "columns": view.columns,
        "cosines": weights(torch.from_numpy(view.cosines)),
        "points": [[rounded(x), rounded(y)] for x, y in view.points.tolist()],
        "explained": [rounded(share) for share in view.explained],
        "nearest": [view.nearest(row) for row in range(len(view.rows))],
        "ranks": view.ranks,
    }


def encoder_summary(encoder: SentenceEncoder, *, name: str) -> dict[str, Any]:
    """The entry "model" of an inspection's JSON for a sentence encoder: `model_summary`, pooling and vector width."""
    return model_summary(encoder, name=name) | {"pooling": encoder.config.pooling, "width": encoder.model.width}


def draw_similarity(path: Path, view: SimilarityView, *, picture: str) -> list[str]:
    """Draws compared sentences as SVG or PNG; `picture` names one of SIMILARITY_PICTURES. Returns warnings."""
    count = max(len(view.rows), len(view.columns))
    if count > MOST:
        raise DataError(
            f"a picture can show at most {MOST} sentences, but there are {count}; pass --limit {MOST}, or write an "
            ".html page"
        )
    return save_figure(path, lambda figure: SIMILARITY_PICTURES[picture](figure, view))


def _draw_matrix(figure: Any, view: SimilarityView) -> None:
    figure.set_size_inches(3.6 + 0.3 * len(view.columns), 2.6 + 0.27 * len(view.rows))
    axes = figure.subplots()
    heat_map(axes, torch.from_numpy(view.cosines), rows=view.rows, columns=view.columns)
    axes.set_title("cosines of sentence vectors", loc="left", fontsize=10)


def _draw_projection(figure: Any, view: SimilarityView) -> None:
    figure.set_size_inches(8.4, 6.4)
    axes = figure.subplots()
    count = len(view.rows)
    groups = [("source", view.rows, view.points[:count])]
    if view.has_partners:
        groups.append(("target", view.columns, view.points[count:]))
        for one, other in zip(view.points[:count], view.points[count:], strict=True):
            axes.plot(*zip(one, other, strict=True), color="#c9ced3", linewidth=1, zorder=1)
    for (name, texts, points), colour in zip(groups, COLOURS, strict=False):
        axes.scatter(points[:, 0], points[:, 1], s=22, color=colour, label=name, zorder=2)
        above = 4 if name == "target" else -9  # so that the labels of a pair do not overlap
        for text, point in list(zip(texts, points, strict=True))[: LABELLED // len(groups)]:
            axes.annotate(plain(text), point, xytext=(4, above), textcoords="offset points", fontsize=7, color=colour)
    first, second = view.explained
    axes.set_xlabel(f"first principal component ({first:.0%} of the variance)", fontsize=8)
    axes.set_ylabel(f"second ({second:.0%})", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    if view.has_partners:
        axes.legend(frameon=False, fontsize=8)


SIMILARITY_PICTURES: dict[str, Callable[[Any, SimilarityView], None]] = {
    "similarity": _draw_matrix,
    "projection": _draw_projection,
}
