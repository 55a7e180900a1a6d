"""What a model computes for one translation: attention, beam tree, probabilities, saliency.

Letters: S source pieces, T target pieces, V vocabulary.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

import torch
from torch import Tensor

from calque.engine.engine import lock_of
from calque.engine.ensemble import Ensemble, start_decoding
from calque.engine.postprocessing import pieces_of
from calque.engine.translation_models import TranslationModels
from calque.engine.translator import Translator
from calque.engine.types import Candidate, Request
from calque.errors import ConfigError, TextError
from calque.evaluation.alignment import Link, align, words_of
from calque.inspection.attention_maps import AttentionMap, Reading, read
from calque.inspection.beam_tree import BeamRecorder, ScoreParts
from calque.inspection.beam_view import BeamView, Found, NarrowerBeam, Searched, beam_view, search_with_beams
from calque.inspection.next_tokens import TargetStep, next_token_steps
from calque.inspection.saliency import gradient_times_input, integrated_gradients
from calque.inspection.what_if import Move, MovedAttention, WhatIf
from calque.layers.observers import change_attention
from calque.objectives.decoding_step import pad_source
from calque.search.decode import scoring_of
from calque.search.scoring import SentenceLengths
from calque.search.settings import SearchConfig
from calque.text import BOS, EOS, PIECES, NumberedText


class Saliency(NamedTuple):
    """The contribution of every source piece to every target piece, according to one method."""

    method: str
    weights: Tensor  # [T,S]


class OwnTranslation(NamedTuple):
    """The model's own translation of a source whose target is given, and whether beam search finds that target."""

    text: str
    is_cut: bool
    log_prob: float
    score: float
    beams: list[NarrowerBeam]  # of all sizes from 1; none if the method is not beam search


class SentenceView(NamedTuple):
    """What a model computed for one source and its translation."""

    source: str
    source_pieces: list[str]  # with the end mark
    source_words: list[int]  # the word of each piece, the end mark left out
    target: str
    target_pieces: list[str]  # with the end mark unless it was truncated
    target_words: list[int]
    source_cut: bool  # the source is longer than the model reads: only its beginning was read
    is_given: bool  # the target was given, not found by search
    is_cut: bool
    log_prob: float
    score: ScoreParts | None
    confidence: float | None
    steps: list[TargetStep]
    maps: list[AttentionMap]
    alignment: list[Link] | None
    coverage: list[float] | None  # the attention that each source piece received
    saliency: list[Saliency]
    beam: BeamView | None  # of the model's own translation
    own: OwnTranslation | None  # if the target was given
    numbered: NumberedText  # the source as ids, without the end mark
    target_ids: list[int]  # with the end mark unless it was truncated
    what_if: WhatIf = WhatIf()


class _Answer(NamedTuple):
    """The translation to inspect, as ids and as text: found by search, or given by the user."""

    ids: list[int]  # with the end mark unless it was truncated
    text: str
    is_cut: bool
    candidate: Candidate | None  # None if the target was given
    searches: list[Searched]  # with the beam that was asked for, then with narrower ones; none without beam search
    beam: BeamView | None
    own: OwnTranslation | None = None


def inspect_translation(
    translator: Translator,
    request: str | Request,
    *,
    target: str | None = None,
    moves: Sequence[Move] = (),
    saliency: bool | None = None,
) -> SentenceView:
    """Translates a request, or reads a given `target` for it, and returns all that the model computed.

    If the target is given, the request is translated too, to show what the model prefers and at which piece
    search drops the target.

    Each of the `moves` puts all attention on one source piece while one target piece is predicted; later pieces are
    predicted from the result. By default, `saliency` is computed only if the model has no attention.

    >>> view = inspect_translation(calque.load("runs/1"), "Guten Morgen!")
    >>> [(step.piece, step.runners_up[0].piece) for step in view.steps]
    [('▁Good', '▁Hello'), ('▁morning', '▁day'), ('!', '.'), ('</s>', '▁!')]
    """
    request = Request(request) if isinstance(request, str) else request
    models = translator.engine().models
    search = models.search if request.search is None else request.search
    (encoded,) = models.encode_sources([request.text], limit=search.source_limit)
    source = encoded.numbered
    if not source.ids:
        raise TextError("the text is empty: there is nothing to inspect")
    moved = MovedAttention(moves, model=models.model, source_pieces=len(source.ids) + 1)
    with lock_of(models.model):
        found = _search(translator, request, search, source, moved=moved)
        if target is not None:
            found = _given(models, target, source, found=found)
        reading = _read(models, source.ids, found.ids, search=search, moved=moved)
        wants_saliency = not reading.maps if saliency is None else saliency
        contributions = _saliency(models, source.ids, found.ids) if wants_saliency else []
    _refuse_late_moves(moves, pieces=len(found.ids))
    view = _view(models, source, found, reading, contributions, source_cut=encoded.cut, search=search)
    return view._replace(what_if=WhatIf(request.prefix, request.forbidden, tuple(moves)))


def _search(
    translator: Translator, request: Request, search: SearchConfig, source: NumberedText, *, moved: MovedAttention
) -> _Answer:
    """The translation that search finds, with its beam tree in beam search; `moved` may redirect attention."""
    nbest = 1 if request.nbest is None else request.nbest
    best: list[Candidate] = []  # of every search, that with the widest beam first

    def run(settings: SearchConfig, recorder: BeamRecorder | None) -> Found:
        count = nbest if recorder is None else recorder.nbest
        asked = request._replace(detail=True, long="cut", search=settings, nbest=count)
        answer = translator.engine().answer(asked, observer=recorder, interventions=moved.interventions)
        candidate = answer.candidates[0]
        best.append(candidate)
        assert candidate.detail is not None
        ids = [*candidate.detail.ids, *([] if candidate.cut else [EOS])]
        return Found(ids, candidate.text, candidate.cut, candidate.log_prob, candidate.score)

    searches = search_with_beams(search, run, nbest=nbest) if search.method == "beam" else []
    found = searches[0].found if searches else run(search, None)
    if not found.ids:
        raise TextError("the constraints allow no translation: there is nothing to inspect")
    tokenizer = translator.tokenizers.target

    def pieces(ids: Sequence[int]) -> list[str]:
        return pieces_of(tokenizer, ids, source.unknown)

    def text(ids: Sequence[int]) -> str:
        return " ".join(tokenizer.detokenise(pieces(ids)).split("\n"))

    view = beam_view(searches, nbest=nbest, pieces=pieces, text=text) if searches else None
    return _Answer(found.ids, found.text, found.is_cut, best[0], searches, view)


def _given(models: TranslationModels, target: str, source: NumberedText, *, found: _Answer) -> _Answer:
    """The user's `target` as the translation to inspect, with the one that search `found` for comparison."""
    (encoded,) = models.encode_targets([target], [source])
    ids = [*encoded.numbered.ids, *([] if encoded.cut else [EOS])]
    assert found.candidate is not None
    beams = [search.outcome(ids) for search in (*found.searches[1:], *found.searches[:1])]
    own = OwnTranslation(found.text, found.is_cut, found.candidate.log_prob, found.candidate.score, beams)
    return _Answer(ids, target, encoded.cut, None, found.searches, found.beam, own)


def _read(
    models: TranslationModels,
    source: Sequence[int],
    target: Sequence[int],
    *,
    search: SearchConfig,
    moved: MovedAttention,
) -> Reading:
    """The probabilities and attention of the model while it reads a source and a given target.

    For an ensemble, attention is that of the first model, and probabilities are those of the whole ensemble.
    """
    with ExitStack() as stack:
        if moved.sources:
            for layer, change in moved.changes:
                stack.enter_context(change_attention(models.model, layer, change))
        before = (lambda number: moved.state(None, length=number)) if moved.sources else None
        reading = read(models.model, source, target, before=before)
        if models.ensemble == Ensemble():
            return reading
        return reading._replace(log_probs=_combined_log_probs(models, source, target, search=search, moved=moved))


def _combined_log_probs(
    models: TranslationModels,
    source: Sequence[int],
    target: Sequence[int],
    *,
    search: SearchConfig,
    moved: MovedAttention,
) -> Tensor:
    """The log-probabilities [T,V] that an ensemble as a whole gives to the next piece at each of T target positions."""
    padded = pad_source([source]).to(models.device)
    rows = []
    with torch.inference_mode(), models.model.evaluating():
        step, state, context = start_decoding(
            models.model, padded, ensemble=models.ensemble, search=search, attention=False
        )
        for number, token in enumerate([BOS, *target[:-1]], start=1):
            moved.state(None, length=number)
            output, state = step(torch.tensor([token], device=models.device), state, context)
            rows.append(output.log_probs[0].cpu())
    return torch.stack(rows)


def _saliency(models: TranslationModels, source: Sequence[int], target: Sequence[int]) -> list[Saliency]:
    return [
        Saliency("gradient × input", gradient_times_input(models.model, source, target)),
        Saliency("integrated gradients", integrated_gradients(models.model, source, target)),
    ]


def _refuse_late_moves(moves: Sequence[Move], *, pieces: int) -> None:
    """Raises a ConfigError if attention is to be moved at a target piece after the end of the translation."""
    late = [move.target for move in moves if move.target > pieces]
    if late:
        raise ConfigError(
            f"attention cannot be redirected at target piece {late[0]}: the translation has only {pieces} pieces"
        )


def _view(
    models: TranslationModels,
    source: NumberedText,
    found: _Answer,
    reading: Reading,
    saliency: list[Saliency],
    *,
    source_cut: bool,
    search: SearchConfig,
) -> SentenceView:
    tokenizers, candidate = models.tokenizers, found.candidate
    source_pieces = pieces_of(tokenizers.source, source.ids, source.unknown)
    pieces = pieces_of(tokenizers.target, found.ids if found.is_cut else found.ids[:-1], source.unknown)
    source_words = words_of([tokenizers.source.starts_word(piece) for piece in source_pieces])
    target_words = words_of([tokenizers.target.starts_word(piece) for piece in pieces])
    attention = reading.attention
    steps = _steps(models, found.ids, reading, unknown=source.unknown)
    log_prob = sum(step.log_prob for step in steps) if candidate is None else candidate.log_prob
    end = PIECES[EOS]
    return SentenceView(
        source.text,
        [*source_pieces, end],
        source_words,
        found.text,
        [*pieces, *([] if found.is_cut else [end])],
        target_words,
        source_cut,
        candidate is None,
        found.is_cut,
        log_prob,
        _score(found, reading, source, log_prob=log_prob, search=search),
        None if candidate is None else candidate.confidence,
        steps,
        reading.maps,
        None if attention is None else align(attention, source_words=source_words, target_words=target_words),
        None if attention is None else attention.sum(dim=0).tolist(),
        saliency,
        found.beam,
        found.own,
        source,
        found.ids,
    )


def _score(
    found: _Answer, reading: Reading, source: NumberedText, *, log_prob: float, search: SearchConfig
) -> ScoreParts | None:
    """The terms of a translation's score in beam search; None if it was truncated or found by another method."""
    if found.beam is None or found.is_cut:
        return None
    scoring, values = scoring_of(search), torch.tensor([[log_prob]], dtype=torch.float64)
    covered = reading.attention.sum(dim=0)[None, None] if reading.attention is not None else None
    lengths = SentenceLengths(torch.tensor([len(source.ids) + 1]), torch.tensor([len(found.ids)]))
    terms = scoring.terms(values, length=len(found.ids), covered=covered, lengths=lengths)
    coverage, end = (0.0 if part is None else float(part) for part in (terms.coverage, terms.end))
    return ScoreParts(float(terms.length), coverage, end, float(terms.reward))


def _steps(
    models: TranslationModels, ids: Sequence[int], reading: Reading, *, unknown: Sequence[str]
) -> list[TargetStep]:
    """The probability of each target piece, and the most likely alternatives to it."""

    def piece(id: int) -> str:
        return pieces_of(models.tokenizers.target, [id], unknown)[0]

    steps = next_token_steps(reading.log_probs, ids, piece=piece)
    if reading.copying is None:
        return steps
    return [step._replace(copying=share) for step, share in zip(steps, reading.copying, strict=True)]
