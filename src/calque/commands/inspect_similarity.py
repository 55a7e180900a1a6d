"""What `calque inspect` shows of sentence vectors: a table for a terminal or a pipe."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from calque.commands.inspect_text import number
from calque.commands.rendering import one_field
from calque.commands.tables import table

if TYPE_CHECKING:
    from calque.inspection.sentence_similarity import SimilarityView


def similarity_lines(view: "SimilarityView", *, name: str | None = None) -> Iterator[str]:
    """For each sentence, the cosine and rank of its partner if it has one, and the nearest sentence."""
    if name is not None:
        yield f"model        {name}"
    if view.ranks is not None:
        right = sum(rank == 1 for rank in view.ranks)
        yield f"partners     {right:,} of {len(view.ranks):,} are the nearest"
    header = ["sentence", *(["partner", "rank"] if view.has_partners else []), "nearest", "sentence nearest to it"]
    rows = []
    for row, text in enumerate(view.rows):
        column = view.nearest(row)
        partner = [] if view.ranks is None else [number(float(view.cosines[row, row])), f"{view.ranks[row]:,}"]
        nearest = [number(float(view.cosines[row, column])), one_field(view.columns[column])]
        rows.append([one_field(text), *partner, *nearest])
    yield from table(header, rows)
