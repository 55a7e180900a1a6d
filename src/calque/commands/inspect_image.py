"""What `calque inspect --image` shows of an image: tables for a terminal or a pipe."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from calque.commands.inspect_text import Brief, alternatives, number, share
from calque.commands.rendering import one_field
from calque.commands.tables import table

if TYPE_CHECKING:
    from calque.inspection.captioning import CaptionView


def caption_lines(view: "CaptionView", *, name: str | None = None) -> Iterator[str]:
    """A summary, a table of the pieces, where every word attends, and the other candidates."""
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


def caption_brief(view: "CaptionView") -> Brief:
    """The one-line summary of an image."""
    return Brief(view.best.log_prob, len(view.steps), view.image, view.best.text)


def _places(view: "CaptionView") -> list[list[str]]:
    """For every word, the position with the most attention, counted from the upper left corner and 1."""
    rows = []
    for word, attention in view.words or ():
        place = int(attention.argmax())
        row, column = divmod(place, view.side)
        rows.append([one_field(word), f"{row + 1}, {column + 1}", f"{float(attention[place]):.3f}"])
    return rows
