"""`calque inspect` of translation models: shows what they compute for sentences, as tables for a terminal or a pipe."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from calque.commands.inspect_questions import Question
from calque.commands.inspect_tables import Brief, alternatives, beam_lines, number, outcome_lines, share, strongest
from calque.commands.inspect_task import TaskInspection, View, ViewOptions
from calque.commands.loading import search_of
from calque.commands.rendering import one_field
from calque.commands.tables import table
from calque.engine import Request, Translator
from calque.inspection import pictures
from calque.inspection.document import Weights, as_lists, sentence_values
from calque.inspection.state_index import StateIndex, open_run_index
from calque.inspection.states import states_of_view
from calque.inspection.translation import OwnTranslation, SentenceView, inspect_translation

STATES = "states"
TERMS = {
    "length": "log-probability over length penalty",
    "coverage": "coverage",
    "end": "end normalisation",
    "reward": "reward",
}


class TranslationInspection(TaskInspection[Translator, SentenceView]):
    """Runs neural translation models on sentences, and shows how the translations came about."""

    task = "translation"
    models = "neural translation models"
    searches = True
    pictures = (*pictures.PICTURES, STATES)
    options = frozenset({"--target", "--prefix", "--forbid-word", "--attend", "--states", "--index", "--saliency"})

    def views(
        self, models: Mapping[str, Translator], questions: Sequence[Question], options: ViewOptions
    ) -> list[View]:
        indices = {name: open_run_index(loaded, Path(name)) for name, loaded in models.items() if options.states}
        return [
            self.view(loaded, name, question, options, index=indices.get(name))
            for question in questions
            for name, loaded in models.items()
        ]

    def view(
        self,
        loaded: Translator,
        name: str,
        question: Question,
        options: ViewOptions,
        *,
        index: StateIndex | None = None,
    ) -> View:
        assert isinstance(question.text, str)
        search = search_of(loaded.search, options.settings, beam=None, nbest=1, batch_tokens=None)
        prefix, forbidden, moves = options.what_if
        request = Request(question.text, prefix=prefix, forbidden=forbidden, search=search)
        view = inspect_translation(loaded, request, target=question.target, moves=moves, saliency=options.saliency)
        return View(name, view, None if index is None else states_of_view(loaded, view, index=index))

    def lines(self, view: SentenceView, *, name: str | None = None) -> Iterator[str]:
        return sentence_lines(view, name=name)

    def brief(self, view: SentenceView) -> Brief:
        return Brief(view.log_prob, len(view.steps), view.source, view.target)

    def values(self, view: SentenceView, *, weights: Weights = as_lists) -> dict[str, Any]:
        return sentence_values(view, weights=weights)

    def draw(self, path: Path, view: SentenceView, *, picture: str) -> list[str]:
        return pictures.draw(path, view, picture=picture)


def sentence_lines(view: SentenceView, *, name: str | None = None) -> Iterator[str]:
    """Yields a summary, a table of the pieces with what they attend to, and what beam search kept."""
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
        yield "This model has no attention; the table shows the most salient source pieces instead."
    yield from table(_step_header(view), [_step_row(view, place) for place in range(len(view.steps))])
    if view.coverage is not None:
        yield ""
        least = sorted(range(len(view.coverage)), key=lambda place: view.coverage[place])[:3]  # type: ignore[index]
        pieces = ", ".join(f"{one_field(view.source_pieces[place])} {view.coverage[place]:.2f}" for place in least)
        yield f"least attended source pieces, summed over the translation: {pieces}"
    if view.own is not None and view.own.beams:
        yield ""
        yield "the given translation in beam search:"
        yield from outcome_lines(view.own.beams, pieces=view.target_pieces, answer="translation")
    if view.beam is not None:
        yield ""
        yield from beam_lines(view.beam, pieces=view.target_pieces, outcomes=view.own is None)


def _own_lines(view: SentenceView, own: OwnTranslation) -> Iterator[str]:
    """Yields lines with the model's own translation, and whether it scores higher than the one given by the user."""
    yield f"own output   {one_field(own.text)}{' (cut)' if own.is_cut else ''}"
    scores = f"log P {number(own.log_prob)}, score {number(own.score)}"
    if view.score is None or own.is_cut:
        yield f"             {scores}"
        return
    difference = view.score.total - own.score
    if any(outcome.finds for outcome in own.beams[-1:]):
        yield f"             {scores}: the same translation"
    elif difference > 0:
        yield f"             {scores}: lower by {difference:.3f}; a search error: the given translation scores higher"
    else:
        yield f"             {scores}: higher by {-difference:.3f}; the model prefers its own translation"


def _what_if(view: SentenceView) -> Iterator[str]:
    """Yields lines about what the user imposed: a prefix of the translation, forbidden words, or attention."""
    prefix, forbidden, moves = view.what_if
    if prefix:
        yield f"the translation had to begin with {one_field(prefix)!r}"
    if forbidden:
        yield f"the translation could not contain {', '.join(repr(one_field(word)) for word in forbidden)}"
    yield from (f"target piece {move.target} attended to source piece {move.source} alone" for move in moves)


def _step_header(view: SentenceView) -> list[str]:
    looks = (["attends to"] if view.maps else []) + ([view.saliency[-1].method] if view.saliency else [])
    copies = ["copies"] if any(step.copying is not None for step in view.steps) else []
    return ["#", "piece", "P", "rank", "entropy", *copies, "runners-up", *looks]


def _step_row(view: SentenceView, place: int) -> list[str]:
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


def _looks(view: SentenceView, place: int) -> list[str]:
    """For the target piece with index `place`: its most attended source pieces, then the most salient, if known."""
    rows = [view.maps[0].weights[0][place].tolist()] if view.maps else []
    rows += [view.saliency[-1].weights[place].tolist()] if view.saliency else []
    return [strongest(row, names=view.source_pieces) for row in rows]
