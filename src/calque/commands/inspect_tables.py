"""The parts that the tables of `calque inspect` share: probabilities, alternatives, beam search, one-line summaries."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from calque.commands.rendering import one_field
from calque.commands.tables import table

if TYPE_CHECKING:
    from calque.inspection.attention_maps import AttentionMap
    from calque.inspection.beam_view import BeamView, NarrowerBeam
    from calque.inspection.next_tokens import Alternative
    from calque.inspection.translation import Saliency

ENDED = 5  # hypotheses that are listed
LONGEST = 48  # characters of a text in one line

STOPS = {
    "bound": "no live hypothesis could still score better",
    "count": "enough hypotheses had ended",
    "maximum": "the maximum length was reached",
    "exhausted": "no hypothesis was left to extend",
}


class Brief(NamedTuple):
    """The one-line summary of an inspected text."""

    log_prob: float
    pieces: int  # that the log-probability is a sum over
    text: str
    answer: str | None = None  # a translation, or labels


def brief_lines(briefs: Sequence[tuple[str | None, Brief]]) -> Iterator[str]:
    """Yields a table of all inspected texts, the least probable first; models are named if there are several."""
    yield f"{len(briefs)} texts by log P, the least probable first"
    order = sorted(enumerate(briefs, start=1), key=lambda item: item[1][1].log_prob)
    named, answered = briefs[0][0] is not None, briefs[0][1].answer is not None
    header = ["#", "log P", "per piece", *(["model"] if named else []), "text", *(["answer"] if answered else [])]
    rows = [
        [
            str(place),
            number(brief.log_prob),
            number(brief.log_prob / max(1, brief.pieces)),
            *([name or ""] if named else []),
            _start(brief.text),
            *([_start(brief.answer or "")] if answered else []),
        ]
        for place, (name, brief) in order
    ]
    yield from table(header, rows)


def _start(text: str) -> str:
    """The text, shortened to its beginning if it is long."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def alternatives(items: "Sequence[Alternative]") -> str:
    """Alternative pieces with their probabilities, on one line."""
    return "  ".join(f"{one_field(item.piece)} {share(item.log_prob)}" for item in items)


def strongest(row: Sequence[float], *, names: Sequence[str]) -> str:
    """The three `names` with the largest weights in `row`, and their weights, on one line."""
    best = sorted((place for place in range(len(row)) if row[place]), key=lambda place: -abs(row[place]))[:3]
    return "  ".join(f"{one_field(names[place])} {row[place]:.2f}".replace("-", "−") for place in best)


def beam_lines(
    beam: "BeamView", *, pieces: Sequence[str], answer: str = "translation", outcomes: bool = True
) -> Iterator[str]:
    """Reports how many candidates beam search kept, what narrower beams would find, and the best finished hypotheses.

    `pieces` are those of the answer. Narrower beams are reported only if `outcomes` is true.
    """
    steps = beam.tree.steps
    compared = sum(len(step.candidates) for step in steps)
    kept = sum(candidate.fate != "dropped" for step in steps for candidate in step.candidates)
    yield (
        f"beam {beam.width}: {len(steps)} steps, {compared} candidates compared, {kept} kept; "
        f"search stopped because {STOPS[beam.tree.stop]}"
    )
    if outcomes:
        yield from outcome_lines(beam.narrower, pieces=pieces, answer=answer)
    if beam.ended:
        yield ""
        more = f"; the best {ENDED}:" if len(beam.ended) > ENDED else ""
        yield f"finished hypotheses: {len(beam.ended)}{more}"
        rows = [[number(item.score.total), number(item.log_prob), item.text] for item in beam.ended[:ENDED]]
        yield from table(["score", "log P", "text"], rows)


def outcome_lines(outcomes: "Sequence[NarrowerBeam]", *, pieces: Sequence[str], answer: str) -> Iterator[str]:
    """Reports for each beam size whether it finds the answer; consecutive sizes with the same outcome share a line."""
    described = ((_outcome(outcome, pieces=pieces, answer=answer), outcome.beam) for outcome in outcomes)
    for text, group in groupby(described, key=itemgetter(0)):
        beams = [width for _, width in group]
        yield f"  beam {beams[0]}{f' to {beams[-1]}' if len(beams) > 1 else ''}: {text}"


def _outcome(narrower: "NarrowerBeam", *, pieces: Sequence[str], answer: str) -> str:
    """Says whether a narrower beam finds the same output, prefers another, or loses it; `answer` names the output."""
    if narrower.finds:
        return f"finds the same {answer}"
    if narrower.lost_at is None:
        return f"keeps this {answer}, but prefers: {one_field(narrower.text)} ({number(narrower.score)})"
    lost = pieces[narrower.lost_at - 1] if narrower.lost_at <= len(pieces) else "its end"
    verb = "stops before" if narrower.is_stopped else f"loses this {answer} at"
    return f"{verb} piece {narrower.lost_at} ({one_field(lost)}) and finds: {one_field(narrower.text)}"


def share(log_prob: float) -> str:
    """The probability exp(log_prob) as text with three decimals, or in scientific notation if it is small."""
    value = math.exp(log_prob)
    return f"{value:.3f}" if value >= 0.0005 or value == 0 else f"{value:.0e}"


def number(value: float) -> str:
    """A number with three decimals; a negative number begins with a minus sign (−), not with a hyphen."""
    return f"{value:.3f}".replace("-", "−")


def reads(maps: "Sequence[AttentionMap]", saliency: "Sequence[Saliency]") -> tuple[str, list[list[float]]] | None:
    """A column header, and the weights of the inputs for each prediction; None if there are none.

    Weights are the mean attention of all heads or, for models without attention, saliency.
    """
    from calque.inspection.attention_maps import mean_weights

    if maps:
        return "attends to", mean_weights(maps).tolist()
    return (saliency[-1].method, saliency[-1].weights.tolist()) if saliency else None
