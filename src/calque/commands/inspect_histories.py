"""What `calque inspect` shows of a recommendation: the histories it reads, and tables for a terminal or a pipe."""

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from calque.commands.inspect_text import Brief, number
from calque.commands.rendering import one_field
from calque.commands.tables import table
from calque.errors import DataError, TextError

if TYPE_CHECKING:
    from calque.engine import History, Recommender
    from calque.inspection.recommendation import RecommendationView

SHOWN = 10  # candidates


def histories_of(recommender: "Recommender", path: Path, *, limit: int) -> "list[History]":
    """The first `limit` histories of a file, as `calque recommend` reads it."""
    from calque.commands.recommend import read_histories
    from calque.commands.sequence_options import is_records

    histories = []
    for asked in islice(read_histories(recommender, path, records=is_records(path)), limit):
        if isinstance(asked.history, TextError):
            raise DataError(f"{path}: line {asked.line}: {asked.history}")
        histories.append(asked.history)
    if not histories:
        raise DataError(f"{path}: has no user to inspect")
    return histories


def recommendation_lines(view: "RecommendationView", *, name: str | None = None) -> Iterator[str]:
    """A summary, a table of the items of the history with their influence, and a table of the candidates."""
    if name is not None:
        yield f"model        {name}"
    best = view.recommended[0].item if view.recommended else ""
    yield f"recommended  {one_field(best)}"
    if view.unknown:
        yield f"unknown      {view.unknown} items of the history are not in the catalogue"
    yield ""
    if view.is_cold:
        yield "The history has no known item: the most popular items are recommended."
    else:
        yield "influence: how much the item raises the log-probability of the recommended one"
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


def recommendation_brief(view: "RecommendationView") -> Brief:
    """The one-line summary of a recommendation."""
    first = view.recommended[:1]
    return Brief(
        first[0].log_prob if first else -math.inf,
        len(view.items),
        " ".join(view.items),
        first[0].item if first else "",
    )
