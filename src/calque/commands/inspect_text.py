"""What `calque inspect` shows of a translation: tables for a terminal or a pipe."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from calque.commands.rendering import one_field
from calque.commands.tables import table

if TYPE_CHECKING:
    from calque.inspection.beam_view import BeamView, NarrowerBeam
    from calque.inspection.next_tokens import Alternative
    from calque.inspection.translation import OwnTranslation, SentenceView

ENDED = 5  # hypotheses that are listed
LONGEST = 48  # characters of a text in one line

STOPS = {
    "bound": "no live hypothesis could still score better",
    "count": "enough hypotheses had ended",
    "maximum": "the maximum length was reached",
    "exhausted": "no hypothesis was left to extend",
}
TERMS = {
    "length": "log-probability over length penalty",
    "coverage": "coverage",
    "end": "end normalisation",
    "reward": "reward",
}


def sentence_lines(view: "SentenceView", *, name: str | None = None) -> Iterator[str]:
    """A summary, a table of the pieces with what they attend to, and what beam search kept."""
    if name is not None:
        yield f"model        {name}"
    yield f"source       {one_field(view.source)}"
    if view.source_cut:
        yield f"             too long: only its beginning, {len(view.source_pieces) - 1} pieces, was read"
    yield f"translation  {one_field(view.target)}{' (given)' if view.is_given else ''}{' (cut)' if view.is_cut else ''}"
    if what_if := list(_what_if(view)):
        yield f"what if      {'; '.join(what_if)}"
    yield f"log P        {number(view.log_prob)}"
    if view.score is not None:
        terms = [(TERMS[key], value) for key, value in view.score._asdict().items() if value or key == "length"]
        parts = " + ".join(f"{number(value)} ({term})" for term, value in terms)
        total = number(view.score.total)
        yield f"score        {total} = {parts}" if len(terms) > 1 else f"score        {total} ({terms[0][0]})"
    if view.own is not None:
        yield from _own_lines(view, view.own)
    if view.confidence is not None:
        yield f"confidence   {view.confidence:.2f} (expected chrF, from 0 to 1)"
    if view.alignment is not None:
        links = " ".join(f"{source}-{target}" for source, target in view.alignment)
        yield f"alignment    {links} (source-target words, counted from 0)"
    yield ""
    if not view.maps:
        yield "This model has no attention; the table has the most salient source pieces in its place."
    yield from table(_step_header(view), [_step_row(view, place) for place in range(len(view.steps))])
    if view.coverage is not None:
        yield ""
        least = sorted(range(len(view.coverage)), key=lambda place: view.coverage[place])[:3]  # type: ignore[index]
        pieces = ", ".join(f"{one_field(view.source_pieces[place])} {view.coverage[place]:.2f}" for place in least)
        yield f"least attended source pieces, summed over the translation: {pieces}"
    if view.own is not None and view.own.beams:
        yield ""
        yield "the given translation in beam search:"
        yield from _outcome_lines(view.own.beams, pieces=view.target_pieces, answer="translation")
    if view.beam is not None:
        yield ""
        yield from beam_lines(view.beam, pieces=view.target_pieces, outcomes=view.own is None)


def _own_lines(view: "SentenceView", own: "OwnTranslation") -> Iterator[str]:
    """The model's own translation, and whether it or the given one scores higher."""
    yield f"own output   {one_field(own.text)}{' (cut)' if own.is_cut else ''}"
    scores = f"log P {number(own.log_prob)}, score {number(own.score)}"
    if view.score is None or own.is_cut:
        yield f"             {scores}"
        return
    difference = view.score.total - own.score
    if any(outcome.finds for outcome in own.beams[-1:]):
        yield f"             {scores}: the same translation"
    elif difference > 0:
        yield f"             {scores}: lower by {difference:.3f}; a search error, as the given one scores higher"
    else:
        yield f"             {scores}: higher by {-difference:.3f}; the model prefers its own"


class Brief(NamedTuple):
    """The one-line summary of an inspected text."""

    log_prob: float
    pieces: int  # that the log-probability is a sum over
    text: str
    answer: str | None = None  # a translation, or labels


def sentence_brief(view: "SentenceView") -> Brief:
    """The one-line summary of a translation."""
    return Brief(view.log_prob, len(view.steps), view.source, view.target)


def brief_lines(briefs: Sequence[tuple[str | None, Brief]]) -> Iterator[str]:
    """A table of all inspected texts with the models' names if there are several, the least probable first."""
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


def _what_if(view: "SentenceView") -> Iterator[str]:
    """Lines that describe the user's interventions: prefix, forbidden words and attention."""
    prefix, forbidden, moves = view.what_if
    if prefix:
        yield f"it had to begin with {one_field(prefix)!r}"
    if forbidden:
        yield f"it could not contain {', '.join(repr(one_field(word)) for word in forbidden)}"
    yield from (f"target piece {move.target} attended to source piece {move.source} alone" for move in moves)


def _step_header(view: "SentenceView") -> list[str]:
    looks = (["attends to"] if view.maps else []) + ([view.saliency[-1].method] if view.saliency else [])
    copies = ["copies"] if any(step.copying is not None for step in view.steps) else []
    return ["#", "piece", "P", "rank", "entropy", *copies, "runners-up", *looks]


def _step_row(view: "SentenceView", place: int) -> list[str]:
    step = view.steps[place]
    copies = [f"{step.copying:.2f}"] if step.copying is not None else []
    return [
        str(place + 1),
        one_field(step.piece),
        share(step.log_prob),
        str(step.rank),
        f"{step.entropy:.2f}",
        *copies,
        alternatives(step.runners_up),
        *_looks(view, place),
    ]


def alternatives(items: "Sequence[Alternative]") -> str:
    """Alternative pieces with their probabilities, on one line."""
    return "  ".join(f"{one_field(item.piece)} {share(item.log_prob)}" for item in items)


def _looks(view: "SentenceView", place: int) -> list[str]:
    """The source pieces with the most attention, and the most salient ones, for the target piece at `place`."""
    rows = [view.maps[0].weights[0][place].tolist()] if view.maps else []
    rows += [view.saliency[-1].weights[place].tolist()] if view.saliency else []
    return [strongest(row, names=view.source_pieces) for row in rows]


def strongest(row: Sequence[float], *, names: Sequence[str]) -> str:
    """The three names with the largest weights of a row."""
    best = sorted((place for place in range(len(row)) if row[place]), key=lambda place: -abs(row[place]))[:3]
    return "  ".join(f"{one_field(names[place])} {row[place]:.2f}".replace("-", "−") for place in best)


def beam_lines(
    beam: "BeamView", *, pieces: Sequence[str], answer: str = "translation", outcomes: bool = True
) -> Iterator[str]:
    """How many candidates beam search kept, the best hypotheses that ended, and what narrower beams would find.

    `pieces` are those of the answer. Narrower beams are left out without `outcomes`.
    """
    steps = beam.tree.steps
    compared = sum(len(step.candidates) for step in steps)
    kept = sum(candidate.fate != "dropped" for step in steps for candidate in step.candidates)
    yield (
        f"beam {beam.width}: {len(steps)} steps, {compared} candidates compared, {kept} kept; "
        f"search stopped because {STOPS[beam.tree.stop]}"
    )
    if outcomes:
        yield from _outcome_lines(beam.narrower, pieces=pieces, answer=answer)
    if beam.ended:
        yield ""
        more = f", the best {ENDED}" if len(beam.ended) > ENDED else ""
        yield f"hypotheses that ended: {len(beam.ended)}{more}"
        rows = [[number(item.score.total), number(item.log_prob), item.text] for item in beam.ended[:ENDED]]
        yield from table(["score", "log P", "text"], rows)


def _outcome_lines(outcomes: "Sequence[NarrowerBeam]", *, pieces: Sequence[str], answer: str) -> Iterator[str]:
    """Whether beams of several sizes find an answer; neighbouring sizes with the same outcome share a line."""
    described = ((_outcome(outcome, pieces=pieces, answer=answer), outcome.beam) for outcome in outcomes)
    for text, group in groupby(described, key=itemgetter(0)):
        beams = [width for _, width in group]
        yield f"  beam {beams[0]}{f' to {beams[-1]}' if len(beams) > 1 else ''}: {text}"


def _outcome(narrower: "NarrowerBeam", *, pieces: Sequence[str], answer: str) -> str:
    """Whether a narrower beam finds the same answer, prefers another one, or loses it at some piece."""
    if narrower.finds:
        return f"finds the same {answer}"
    if narrower.lost_at is None:
        return f"keeps it, but prefers: {one_field(narrower.text)} ({number(narrower.score)})"
    lost = pieces[narrower.lost_at - 1] if narrower.lost_at <= len(pieces) else "its end"
    verb = "stops before" if narrower.is_stopped else "loses it at"
    return f"{verb} piece {narrower.lost_at} ({one_field(lost)}) and gives: {one_field(narrower.text)}"


def share(log_prob: float) -> str:
    """A probability; in scientific notation if it is small."""
    value = math.exp(log_prob)
    return f"{value:.3f}" if value >= 0.0005 or value == 0 else f"{value:.0e}"


def number(value: float) -> str:
    """A number with three decimals; negative ones begin with the minus sign −, not with a hyphen."""
    return f"{value:.3f}".replace("-", "−")
