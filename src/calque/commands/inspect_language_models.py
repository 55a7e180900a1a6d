"""`calque inspect` of language models: shows what they compute for texts, as tables for a terminal or a pipe."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from calque.commands.inspect_questions import Question
from calque.commands.inspect_tables import Brief, alternatives, beam_lines, number, reads, share, strongest
from calque.commands.inspect_task import TaskInspection, View, ViewOptions
from calque.commands.loading import search_of
from calque.commands.rendering import one_field
from calque.commands.tables import table
from calque.engine import TextGenerator
from calque.inspection.document import Weights, as_lists
from calque.inspection.language_model import MATCHED, Continuation, TextView, inspect_text
from calque.inspection.next_tokens import TargetStep
from calque.inspection.task_documents import text_values
from calque.inspection.task_pictures import TEXT_PICTURES, draw_text


class TextInspection(TaskInspection[TextGenerator, TextView]):
    """Runs language models on texts, and shows their predictions and continuations."""

    task = "language-modelling"
    models = "language models"
    searches = True
    pictures = tuple(TEXT_PICTURES)
    options = frozenset({"--continuation", "--saliency"})

    def view(self, loaded: TextGenerator, name: str, question: Question, options: ViewOptions) -> View:
        assert isinstance(question.text, str)
        search = search_of(loaded.search, options.settings, beam=None, nbest=1, batch_tokens=None)
        if options.continuation is None:
            return View(name, inspect_text(loaded, question.text, saliency=options.saliency))
        return View(
            name,
            inspect_text(loaded, question.text, saliency=options.saliency, search=search, maximum=options.continuation),
        )

    def lines(self, view: TextView, *, name: str | None = None) -> Iterator[str]:
        return text_lines(view, name=name)

    def brief(self, view: TextView) -> Brief:
        return Brief(view.log_prob, len(view.steps), view.text)

    def values(self, view: TextView, *, weights: Weights = as_lists) -> dict[str, Any]:
        return text_values(view, weights=weights)

    def draw(self, path: Path, view: TextView, *, picture: str) -> list[str]:
        return draw_text(path, view, picture=picture)


def text_lines(view: TextView, *, name: str | None = None) -> Iterator[str]:
    """Yields a summary, a table of the pieces with what they attend to, what could follow, and the continuation."""
    perplexity = view.perplexity
    if name is not None:
        yield f"model        {name}"
    yield f"text         {one_field(view.text)}"
    yield f"log P        {number(view.log_prob)}"
    yield (
        f"perplexity   {perplexity.per_token:.2f} per piece, {perplexity.per_word:.2f} per word, "
        f"{perplexity.per_byte:.3f} per byte, with the end of the line"
    )
    yield ""
    title, contributions = _contributions(view)
    rows = [[*_step_row(step), *contributions[place : place + 1]] for place, step in enumerate(view.steps)]
    yield from table(["piece", "P", "rank", "entropy", "runners-up", *title], rows)
    yield ""
    yield f"next         {alternatives(view.next)}"
    if view.continuation is not None:
        yield ""
        yield from _continuation_lines(view.continuation)


def _contributions(view: TextView) -> tuple[list[str], list[str]]:
    """The header and the cells of a column that shows what each prediction depends on; empty if that is unknown.

    For an n-gram model, this is the history of the longest n-gram that was found; for a network, the inputs with the
    most attention or saliency.
    """
    found = reads(view.maps, view.saliency)
    if found is None:
        return [], []
    method, weights = found
    if method != MATCHED:
        return [method], [strongest(row, names=view.inputs) for row in weights]
    histories = [[name for name, weight in zip(view.inputs, row, strict=True) if weight] for row in weights]
    return [f"history of the {MATCHED}"], [" ".join(map(one_field, history)) for history in histories]


def _continuation_lines(continuation: Continuation) -> Iterator[str]:
    yield f"continued    {one_field(continuation.text)}{' (cut)' if continuation.is_cut else ''}"
    yield f"log P        {number(continuation.log_prob)}"
    yield ""
    yield from table(["piece", "P", "rank", "entropy", "runners-up"], [_step_row(step) for step in continuation.steps])
    if continuation.beam is not None:
        yield ""
        yield from beam_lines(continuation.beam, pieces=continuation.pieces, answer="text")


def _step_row(step: TargetStep) -> list[str]:
    return [
        one_field(step.piece),
        share(step.log_prob),
        str(step.rank),
        f"{step.entropy:.2f}",
        alternatives(step.runners_up),
    ]
