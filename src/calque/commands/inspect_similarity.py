"""`calque inspect` of sentence encoders: shows the cosines of sentences as a table for a terminal or a pipe."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from calque.commands.inspect_questions import Question
from calque.commands.inspect_tables import number
from calque.commands.inspect_task import TaskInspection, View, ViewOptions
from calque.commands.rendering import one_field
from calque.commands.tables import table
from calque.engine import SentenceEncoder
from calque.inspection.document import Weights, as_lists
from calque.inspection.sentence_similarity import (
    SIMILARITY_PICTURES,
    SimilarityView,
    draw_similarity,
    encoder_summary,
    inspect_similarity,
    similarity_values,
)


class SimilarityInspection(TaskInspection[SentenceEncoder, SimilarityView]):
    """Runs sentence encoders on sentences, and shows the similarity of the vectors."""

    task = "embedding"
    models = "sentence encoders"
    pictures = tuple(SIMILARITY_PICTURES)
    options = frozenset({"--target"})
    is_joint = True

    def views(
        self, models: Mapping[str, SentenceEncoder], questions: Sequence[Question], options: ViewOptions
    ) -> list[View]:
        sources = [str(question.text) for question in questions]
        targets = [question.target for question in questions if question.target is not None] or None
        return [View(name, inspect_similarity(loaded, sources, targets)) for name, loaded in models.items()]

    def view(self, loaded: SentenceEncoder, name: str, question: Question, options: ViewOptions) -> View:
        return self.views({name: loaded}, [question], options)[0]

    def lines(self, view: SimilarityView, *, name: str | None = None) -> Iterator[str]:
        return similarity_lines(view, name=name)

    def values(self, view: SimilarityView, *, weights: Weights = as_lists) -> dict[str, Any]:
        return similarity_values(view, weights=weights)

    def summary(self, loaded: SentenceEncoder, *, name: str) -> dict[str, Any]:
        return encoder_summary(loaded, name=name)

    def draw(self, path: Path, view: SimilarityView, *, picture: str) -> list[str]:
        return draw_similarity(path, view, picture=picture)


def similarity_lines(view: SimilarityView, *, name: str | None = None) -> Iterator[str]:
    """Yields a table of sentences, the nearest sentence of each and, if targets are given, their cosines and ranks."""
    if name is not None:
        yield f"model        {name}"
    if view.ranks is not None:
        right = sum(rank == 1 for rank in view.ranks)
        yield f"partners     {right:,} of {len(view.ranks):,} sentences are nearest to their partner"
    header = ["sentence", *(["partner", "rank"] if view.has_partners else []), "nearest", "nearest sentence"]
    rows = []
    for row, text in enumerate(view.rows):
        column = view.nearest(row)
        partner = [] if view.ranks is None else [number(float(view.cosines[row, row])), f"{view.ranks[row]:,}"]
        nearest = [number(float(view.cosines[row, column])), one_field(view.columns[column])]
        rows.append([one_field(text), *partner, *nearest])
    yield from table(header, rows)
