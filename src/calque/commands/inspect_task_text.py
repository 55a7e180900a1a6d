"""What `calque inspect` shows of a text or a tagged sentence: tables for a terminal or a pipe."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from calque.commands.inspect_text import Brief, alternatives, beam_lines, number, share, strongest
from calque.commands.rendering import one_field
from calque.commands.tables import table

if TYPE_CHECKING:
    from calque.inspection.attention_maps import AttentionMap
    from calque.inspection.language_model import Continuation, TextView
    from calque.inspection.next_tokens import TargetStep
    from calque.inspection.tagging import TaggingView
    from calque.inspection.translation import Saliency

LIKELIEST = 3  # labels per word
WIDEST = 12  # labels of a transition matrix that is printed whole


def text_lines(view: "TextView", *, name: str | None = None) -> Iterator[str]:
    """A summary, a table of the pieces with what they attend to, what could follow, and the continuation."""
    perplexity = view.perplexity
    if name is not None:
        yield f"model        {name}"
    yield f"text         {one_field(view.text)}"
    yield f"log P        {number(view.log_prob)}"
    yield (
        f"perplexity   {perplexity.per_token:.2f} per piece, {perplexity.per_word:.2f} per word, "
        f"{perplexity.per_byte:.3f} per byte; the end of the line counts"
    )
    yield ""
    looks = _looks(view.maps, view.saliency)
    header = ["piece", "P", "rank", "entropy", "runners-up", *([looks[0]] if looks else [])]
    rows = [
        [*_step_row(step), *([strongest(looks[1][place], names=view.inputs)] if looks else [])]
        for place, step in enumerate(view.steps)
    ]
    yield from table(header, rows)
    yield ""
    yield f"next         {alternatives(view.next)}"
    if view.continuation is not None:
        yield ""
        yield from _continuation_lines(view.continuation)


def text_brief(view: "TextView") -> Brief:
    """The one-line summary of a text."""
    return Brief(view.log_prob, len(view.steps), view.text)


def _continuation_lines(continuation: "Continuation") -> Iterator[str]:
    yield f"continued    {one_field(continuation.text)}{' (cut)' if continuation.is_cut else ''}"
    yield f"log P        {number(continuation.log_prob)}"
    yield ""
    yield from table(["piece", "P", "rank", "entropy", "runners-up"], [_step_row(step) for step in continuation.steps])
    if continuation.beam is not None:
        yield ""
        yield from beam_lines(continuation.beam, pieces=continuation.pieces, answer="text")


def _step_row(step: "TargetStep") -> list[str]:
    return [
        one_field(step.piece),
        share(step.log_prob),
        str(step.rank),
        f"{step.entropy:.2f}",
        alternatives(step.runners_up),
    ]


def tagging_lines(view: "TaggingView", *, name: str | None = None) -> Iterator[str]:
    """A summary, a table of the words with their likeliest labels, the second-best sequence and the transitions."""
    if name is not None:
        yield f"model        {name}"
    yield f"log P        {number(view.best.log_prob)} of the label sequence; its score is {number(view.best.score)}"
    yield ""
    looks = _looks(view.maps, view.saliency)
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


def tagging_brief(view: "TaggingView") -> Brief:
    """The one-line summary of a tagged sentence."""
    return Brief(view.best.log_prob, len(view.words), " ".join(view.words), " ".join(view.predicted))


def _word_row(view: "TaggingView", place: int) -> list[str]:
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


def _looks(maps: "Sequence[AttentionMap]", saliency: "Sequence[Saliency]") -> tuple[str, list[list[float]]] | None:
    """A column header, and the weights of the inputs for each prediction: mean attention of all heads, or saliency."""
    from calque.inspection.attention_maps import mean_weights

    if maps:
        return "attends to", mean_weights(maps).tolist()
    return (saliency[-1].method, saliency[-1].weights.tolist()) if saliency else None


def _runner_up_lines(view: "TaggingView") -> Iterator[str]:
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


def _transition_lines(view: "TaggingView") -> Iterator[str]:
    """The matrix of transition scores if it is small, or else the transitions of the best label sequence.

    In the matrix, · marks transitions that are not allowed.
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
    yield "transition scores, from row to column (· is not allowed):"

    def cells(scores: Sequence[float], possible: Sequence[bool]) -> list[str]:
        return [number(score) if may else "·" for score, may in zip(scores, possible, strict=True)]

    rows = [["start", *cells(start.tolist(), allowed.start.tolist()), ""]]
    for label, name in enumerate(view.labels):
        scores = [*weights[label].tolist(), float(end[label])]
        possible = [*allowed.transitions[label].tolist(), bool(allowed.end[label])]
        rows.append([name, *cells(scores, possible)])
    yield from table(["", *view.labels, "end"], rows)
