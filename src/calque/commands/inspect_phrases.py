"""`calque inspect` of statistical translation models: shows the phrases of a translation and their scores."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from calque.commands.inspect_questions import Question
from calque.commands.inspect_tables import Brief, number
from calque.commands.inspect_task import TaskInspection, View, ViewOptions
from calque.commands.rendering import one_field
from calque.commands.statistical_models import with_settings
from calque.commands.tables import table
from calque.engine import PhraseTranslator
from calque.errors import ConfigError
from calque.inspection.document import Weights, as_lists
from calque.inspection.phrase_view import PhraseView, inspect_phrases, phrase_summary, phrase_values


class PhraseInspection(TaskInspection[PhraseTranslator, PhraseView]):
    """Runs statistical translation models on sentences, and shows the phrases of the translations."""

    task = "statistical translation"
    models = "statistical translation models"
    searches = True
    pictures = ("phrases",)

    def view(self, loaded: PhraseTranslator, name: str, question: Question, options: ViewOptions) -> View:
        assert isinstance(question.text, str)
        return View(name, inspect_phrases(with_settings(loaded, options.settings, beam=None), question.text))

    def lines(self, view: PhraseView, *, name: str | None = None) -> Iterator[str]:
        return phrase_lines(view, name=name)

    def brief(self, view: PhraseView) -> Brief:
        return Brief(view.score, len(view.steps) - 1, view.source, view.target)

    def values(self, view: PhraseView, *, weights: Weights = as_lists) -> dict[str, Any]:
        return phrase_values(view, weights=weights)

    def summary(self, loaded: PhraseTranslator, *, name: str) -> dict[str, Any]:
        return phrase_summary(loaded, name=name)

    def draw(self, path: Path, view: PhraseView, *, picture: str) -> list[str]:
        raise ConfigError(f"{path}: translations of statistical models cannot be drawn; write text, .json or .html")


def phrase_lines(view: PhraseView, *, name: str | None = None) -> Iterator[str]:
    """Yields a summary, a table of the phrases with their features, the weights, and the best translations."""
    if name is not None:
        yield f"model        {name}"
    yield f"source       {one_field(view.source)}"
    if view.source_cut:
        yield f"             too long: only its beginning, {len(view.source_pieces)} pieces, was read"
    yield f"translation  {one_field(view.target)}"
    segments = " ".join(f"[{one_field(step.target)}]" for step in view.steps if step.start is not None)
    yield f"phrases      {segments}"
    yield f"score        {number(view.score)}, the sum of weight × feature"
    yield ""
    names = [name for name in view.weights if any(step.features[name] for step in view.steps)]
    header = ["source", "words", "translation", "score", *names]
    rows = [
        [
            one_field(step.source) if step.start is not None else "(end)",
            "" if step.start is None else f"{step.start + 1}-{step.stop}",
            f"{one_field(step.target)}{' (copied)' if step.copied else ''}",
            f"{step.score:.2f}",
            *(f"{step.features[name]:.2f}" for name in names),
        ]
        for step in view.steps
    ]
    rows.append(["sum", "", "", f"{view.score:.2f}", *(f"{view.features[name]:.2f}" for name in names)])
    rows.append(["weight", "", "", "", *(f"{view.weights[name]:.3f}" for name in names)])
    yield from table(header, rows)
    if len(view.candidates) > 1:
        yield ""
        yield "best translations:"
        for text, score in view.candidates:
            yield f"  {score:8.3f}  {one_field(text)}"
