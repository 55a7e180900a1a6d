"""`calque inspect` of taggers: shows what they compute for sentences, as tables for a terminal or a pipe."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from calque.commands.inspect_questions import Question, labelled_words
from calque.commands.inspect_tables import Brief, number, reads, strongest
from calque.commands.inspect_task import TaskInspection, View, ViewOptions
from calque.commands.rendering import one_field
from calque.commands.tables import table
from calque.engine import Sentence, Tagger
from calque.inspection.document import Weights, as_lists
from calque.inspection.tagging import TaggingView, inspect_tagging
from calque.inspection.task_documents import tagger_summary, tagging_values
from calque.inspection.task_pictures import TAGGING_PICTURES, draw_tagging

LIKELIEST = 3  # labels per word
WIDEST = 12  # labels of a transition matrix that is printed whole


class TaggingInspection(TaskInspection[Tagger, TaggingView]):
    """Runs taggers on sentences, and shows the labels of the words."""

    task = "tagging"
    models = "taggers"
    options = frozenset({"--saliency"})
    pictures = tuple(TAGGING_PICTURES)

    def questions(
        self, loaded: Tagger, questions: list[Question], *, source: Path | None, limit: int
    ) -> list[Question]:
        return questions if source is None else labelled_words(loaded, source, limit=limit) or questions

    def view(self, loaded: Tagger, name: str, question: Question, options: ViewOptions) -> View:
        assert isinstance(question.text, str | Sentence)
        return View(name, inspect_tagging(loaded, question.text, saliency=options.saliency))

    def lines(self, view: TaggingView, *, name: str | None = None) -> Iterator[str]:
        return tagging_lines(view, name=name)

    def brief(self, view: TaggingView) -> Brief:
        return Brief(view.best.log_prob, len(view.words), " ".join(view.words), " ".join(view.predicted))

    def values(self, view: TaggingView, *, weights: Weights = as_lists) -> dict[str, Any]:
        return tagging_values(view, weights=weights)

    def summary(self, loaded: Tagger, *, name: str) -> dict[str, Any]:
        return tagger_summary(loaded, name=name)

    def draw(self, path: Path, view: TaggingView, *, picture: str) -> list[str]:
        return draw_tagging(path, view, picture=picture)


def tagging_lines(view: TaggingView, *, name: str | None = None) -> Iterator[str]:
    """Yields a summary, a table of words with their likeliest labels, the second-best sequence and the transitions."""
    if name is not None:
        yield f"model        {name}"
    yield f"log P        {number(view.best.log_prob)} of the label sequence; its score is {number(view.best.score)}"
    yield ""
    looks = reads(view.maps, view.saliency)
    header = ["word", "label", "P", "emission", "likeliest labels", *([looks[0]] if looks else [])]
    rows = [
        [*_word_row(view, place), *([strongest(looks[1][place], names=view.words)] if looks else [])]
        for place in range(len(view.words))
    ]
    yield from table(header, rows)
    if view.unknown:
        yield ""
        yield f"unknown words: {', '.join(one_field(view.words[place]) for place in view.unknown)}"
    yield ""
    yield from _runner_up_lines(view)
    if view.transitions is not None:
        yield ""
        yield from _transition_lines(view)


def _word_row(view: TaggingView, place: int) -> list[str]:
    label = view.labels.index(view.best.labels[place])
    marginals = view.marginals[place].tolist()
    best = sorted(range(len(marginals)), key=lambda other: -marginals[other])[:LIKELIEST]
    return [
        one_field(view.words[place]),
        view.predicted[place],
        f"{marginals[label]:.3f}",
        number(float(view.emissions[place, label])),
        "  ".join(f"{view.labels[other]} {marginals[other]:.3f}" for other in best),
    ]


def _runner_up_lines(view: TaggingView) -> Iterator[str]:
    second = view.runner_up
    if second is None:
        yield "no other label sequence is allowed"
        return
    changes = ", ".join(
        f"{one_field(view.words[place])} (word {place + 1}) is {second.labels[place]}, not {view.best.labels[place]}"
        for place in view.changes
    )
    difference = view.best.score - second.score
    yield f"second-best sequence: log P {number(second.log_prob)}, lower by {difference:.3f}; {changes}"


def _transition_lines(view: TaggingView) -> Iterator[str]:
    """Yields the matrix of transition scores if it is small, otherwise the transitions of the best label sequence.

    In the matrix, a dot (·) marks a transition that is not allowed.
    """
    assert view.transitions is not None
    weights, start, end, allowed = view.transitions
    if len(view.labels) > WIDEST:
        path = [view.labels.index(label) for label in view.best.labels]
        used = [
            f"{view.labels[before]} → {view.labels[after]} {number(float(weights[before, after]))}"
            for before, after in pairwise(path)
        ]
        first, last = number(float(start[path[0]])), number(float(end[path[-1]]))
        yield "transitions of the best sequence: " + ", ".join([f"start {first}", *used, f"end {last}"])
        return
    yield "transition scores, from row to column (·: not allowed):"

    def cells(scores: Sequence[float], possible: Sequence[bool]) -> list[str]:
        return [number(score) if may else "·" for score, may in zip(scores, possible, strict=True)]

    rows = [["start", *cells(start.tolist(), allowed.start.tolist()), ""]]
    for label, name in enumerate(view.labels):
        scores = [*weights[label].tolist(), float(end[label])]
        possible = [*allowed.transitions[label].tolist(), bool(allowed.end[label])]
        rows.append([name, *cells(scores, possible)])
    yield from table(["", *view.labels, "end"], rows)
