"""What `calque inspect` shows of a statistical model's translation: its phrases and the scores of each."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from calque.commands.inspect_text import Brief, number
from calque.commands.rendering import one_field
from calque.commands.tables import table
from calque.errors import ConfigError

if TYPE_CHECKING:
    from calque.inspection.phrase_view import PhraseView


def phrase_lines(view: "PhraseView", *, name: str | None = None) -> Iterator[str]:
    """A summary, a table of the phrases with their features, the weights, and the best translations."""
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


def phrase_brief(view: "PhraseView") -> Brief:
    """The one-line summary of a translation."""
    return Brief(view.score, len(view.steps) - 1, view.source, view.target)


def draw_phrases(path: Path, *_: object, **__: object) -> list[str]:
    """There are no pictures."""
    raise ConfigError(f"{path}: there are no pictures of a statistical model; write text, .json or .html")
