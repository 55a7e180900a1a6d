"""`calque inspect` of recommenders: shows what they compute for histories, as tables for a terminal or a pipe."""

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from calque.commands.inspect_questions import Question
from calque.commands.inspect_tables import Brief, number
from calque.commands.inspect_task import TaskInspection, View, ViewOptions
from calque.commands.recommend import read_histories
from calque.commands.rendering import one_field
from calque.commands.sequence_options import is_records
from calque.commands.tables import table
from calque.engine import History, Recommender, Sentence
from calque.engine.recommender import as_history
from calque.errors import DataError, TextError
from calque.inspection.document import Weights, as_lists
from calque.inspection.recommendation import (
    RECOMMENDATION_PICTURES,
    RecommendationView,
    draw_recommendation,
    inspect_recommendation,
    recommendation_values,
    recommender_summary,
)

SHOWN = 10  # candidates


class RecommendationInspection(TaskInspection[Recommender, RecommendationView]):
    """Runs recommenders on the histories of users, and shows the items that they recommend."""

    task = "recommendation"
    models = "recommenders"
    pictures = tuple(RECOMMENDATION_PICTURES)

    def questions(
        self, loaded: Recommender, questions: list[Question], *, source: Path | None, limit: int
    ) -> list[Question]:
        if source is None:
            return questions
        return [Question(history) for history in histories_of(loaded, source, limit=limit)]

    def view(self, loaded: Recommender, name: str, question: Question, options: ViewOptions) -> View:
        assert not isinstance(question.text, Sentence)
        return View(name, inspect_recommendation(loaded, as_history(question.text)))

    def lines(self, view: RecommendationView, *, name: str | None = None) -> Iterator[str]:
        return recommendation_lines(view, name=name)

    def brief(self, view: RecommendationView) -> Brief:
        first = view.recommended[:1]
        log_prob = first[0].log_prob if first else -math.inf
        return Brief(log_prob, len(view.items), " ".join(view.items), first[0].item if first else "")

    def values(self, view: RecommendationView, *, weights: Weights = as_lists) -> dict[str, Any]:
        return recommendation_values(view, weights=weights)

    def summary(self, loaded: Recommender, *, name: str) -> dict[str, Any]:
        return recommender_summary(loaded, name=name)

    def draw(self, path: Path, view: RecommendationView, *, picture: str) -> list[str]:
        return draw_recommendation(path, view, picture=picture)


def histories_of(recommender: Recommender, path: Path, *, limit: int) -> list[History]:
    """The first `limit` histories of a file, as `calque recommend` reads it."""
    histories = []
    for asked in islice(read_histories(recommender, path, records=is_records(path)), limit):
        if isinstance(asked.history, TextError):
            raise DataError(f"{path}: line {asked.line}: {asked.history}")
        histories.append(asked.history)
    if not histories:
        raise DataError(f"{path} contains no user to inspect")
    return histories


def recommendation_lines(view: RecommendationView, *, name: str | None = None) -> Iterator[str]:
    """Yields a summary, a table of the history's items with their influence, and a table of the candidates."""
    if name is not None:
        yield f"model        {name}"
    best = view.recommended[0].item if view.recommended else ""
    yield f"recommended  {one_field(best)}"
    if view.unknown:
        yield f"unknown      {view.unknown} items of the history are not in the catalogue"
    yield ""
    if view.is_cold:
        yield "The history contains no known item, so the most popular items are recommended."
    else:
        yield "influence: how much the item raises the log-probability of the recommended item"
        attention = view.attention
        header = ["item", "influence", *(["attention"] if attention is not None else [])]
        rows = [
            [one_field(item), f"{influence:+.3f}", *([f"{attention[place]:.3f}"] if attention is not None else [])]
            for place, (item, influence) in enumerate(zip(view.items, view.influence, strict=True))
        ]
        yield from table(header, rows)
    yield ""
    kept = "seen items are excluded" if view.excludes_seen else "seen items are included"
    yield f"candidates ({kept}):"
    rows = [
        [
            one_field(item.item),
            f"{math.exp(item.log_prob):.4f}",
            number(item.log_prob),
            f"{item.frequency:,}",
            "seen" * item.is_seen,
        ]
        for item in view.candidates[:SHOWN]
    ]
    yield from table(["item", "P", "log P", "in training", ""], rows)
