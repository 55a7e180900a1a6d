"""`calque inspect --image`: shows what captioners compute for images, as tables for a terminal or a pipe."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from calque.commands.caption_scores import UNUSED
from calque.commands.inspect_questions import Question
from calque.commands.inspect_tables import Brief, alternatives, number, share
from calque.commands.inspect_task import TaskInspection, View, ViewOptions
from calque.commands.loading import refuse_idle_beam_settings, search_of
from calque.commands.rendering import one_field
from calque.commands.tables import table
from calque.engine import Captioner
from calque.inspection.captioning import PICTURES, CaptionView, caption_values, draw_caption, inspect_caption
from calque.inspection.document import Weights, as_lists


class CaptionInspection(TaskInspection[Captioner, CaptionView]):
    """Runs captioners on images, and shows the captions and the attention of their words."""

    task = "captioning"
    models = "captioners"
    searches = True
    pictures = PICTURES
    reads = "--image"
    advice = "is a captioner, which reads images: give --image FILE instead of sentences"

    def view(self, loaded: Captioner, name: str, question: Question, options: ViewOptions) -> View:
        search = search_of(loaded.search, options.settings, beam=None, nbest=1, batch_tokens=None)
        refuse_idle_beam_settings(list(options.settings), search=search, unused=UNUSED)
        return View(name, inspect_caption(loaded, Path(str(question.text)), search=search))

    def lines(self, view: CaptionView, *, name: str | None = None) -> Iterator[str]:
        return caption_lines(view, name=name)

    def brief(self, view: CaptionView) -> Brief:
        return Brief(view.best.log_prob, len(view.steps), view.image, view.best.text)

    def values(self, view: CaptionView, *, weights: Weights = as_lists) -> dict[str, Any]:
        return caption_values(view, weights=weights)

    def draw(self, path: Path, view: CaptionView, *, picture: str) -> list[str]:
        return draw_caption(path, view, picture=picture)


def caption_lines(view: CaptionView, *, name: str | None = None) -> Iterator[str]:
    """Yields a summary, a table of the pieces, where each word attends, and the other candidates."""
    if name is not None:
        yield f"model        {name}"
    yield f"image        {one_field(view.image)}"
    yield f"caption      {one_field(view.best.text)}{' (cut)' if view.best.cut else ''}"
    yield f"log P        {number(view.best.log_prob)}"
    yield ""
    rows = [
        [
            one_field(step.piece),
            share(step.log_prob),
            str(step.rank),
            f"{step.entropy:.2f}",
            alternatives(step.runners_up),
        ]
        for step in view.steps
    ]
    yield from table(["piece", "P", "rank", "entropy", "runners-up"], rows)
    if view.words is not None:
        yield ""
        yield from table(["word", "attends to (row, column)", "share"], _places(view))
    if len(view.candidates) > 1:
        yield ""
        scored = [[number(item.score), number(item.log_prob), one_field(item.text)] for item in view.candidates]
        yield from table(["score", "log P", "candidate"], scored)


def _places(view: CaptionView) -> list[list[str]]:
    """For each word: the word, the row and column (from 1) of the image region it attends to most, and the weight."""
    rows = []
    for word, attention in view.words or ():
        place = int(attention.argmax())
        row, column = divmod(place, view.side)
        rows.append([one_field(word), f"{row + 1}, {column + 1}", f"{float(attention[place]):.3f}"])
    return rows
