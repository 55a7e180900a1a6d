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
from calque.inspection.beam_tree import BeamRecorder, BeamTree, ScoreParts
from calque.inspection.next_tokens import TargetStep, next_token_steps
from calque.inspection.saliency import gradient_times_input, integrated_gradients
from calque.inspection.what_if import Move, MovedAttention, WhatIf
from calque.layers.observers import change_attention
from calque.objectives.decoding_step import pad_source
from calque.search.decode import scoring_of
from calque.search.settings import SearchConfig
from calque.text import BOS, EOS, PIECES, NumberedText


class NarrowerBeam(NamedTuple):
    """The result of the same search with a narrower beam: whether and where it lost the translation."""

    beam: int
    finds: bool  # the same translation
    lost_at: int | None  # the position, from 1, whose piece made the answer drop out of the beam
    text: str  # what it translates to
    score: float


class BeamView(NamedTuple):
    """The beam tree of a translation, and what narrower beams find."""

    width: int
    nbest: int
    tree: BeamTree
    pieces: dict[int, str]  # of the candidates' tokens
    answer: list[int]  # ids of the candidates that lead to the translation
    narrower: list[NarrowerBeam]


class Saliency(NamedTuple):
    """The contribution of every source piece to every target piece, by one method."""

    method: str
    weights: Tensor  # [T,S]


class SentenceView(NamedTuple):
    """What a model computed for one source and its translation."""

    source: str
    source_pieces: list[str]  # with the end mark
    source_words: list[int]  # the word of each piece, the end mark left out
    target: str
    target_pieces: list[str]  # with the end mark unless it was cut
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
    beam: BeamView | None
    numbered: NumberedText  # the source as ids, without the end mark
    target_ids: list[int]  # with the end mark unless it was cut
    what_if: WhatIf = WhatIf()


class _Found(NamedTuple):
    """A translation, found by search or given, as ids and as text."""

    ids: list[int]  # with the end mark unless it was cut
    text: str
    is_cut: bool
    candidate: Candidate | None  # None if the target was given
    beam: BeamView | None


def inspect_translation(
    translator: Translator,
    request: str | Request,
    *,
    target: str | None = None,
    moves: Sequence[Move] = (),
    saliency: bool | None = None,
) -> SentenceView:
    """Translates a request, or reads a given `target` for it, and returns all that the model computed.

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
        if target is not None:
            found = _given(models, target, source)
        else:
            found = _search(translator, request, search, source, moved=moved)
        reading = _read(models, source.ids, found.ids, search=search, moved=moved)
        wants_saliency = not reading.maps if saliency is None else saliency
        contributions = _saliency(models, source.ids, found.ids) if wants_saliency else []
    _refuse_late_moves(moves, pieces=len(found.ids))
    view = _view(models, source, found, reading, contributions, source_cut=encoded.cut)
    return view._replace(what_if=WhatIf(request.prefix, request.forbidden, tuple(moves)))


def _search(
    translator: Translator, request: Request, search: SearchConfig, source: NumberedText, *, moved: MovedAttention
) -> _Found:
    """The translation that search finds, with its beam tree if the method is beam search."""
    engine = translator.engine()
    nbest = 1 if request.nbest is None else request.nbest
    recorder = _recorder(search, nbest=nbest)
    observer = recorder if search.method == "beam" else None
    request = request._replace(detail=True, long="cut")
    translation = engine.answer(request, observer=observer, interventions=moved.interventions)
    best = translation.candidates[0]
    assert best.detail is not None
    ids = [*best.detail.ids, *([] if best.cut else [EOS])]
    if not ids:
        raise TextError("the constraints allow no translation: there is nothing to inspect")
    if observer is None:
        return _Found(ids, best.text, best.cut, best, None)
    tree = recorder.tree
    narrower = [
        _narrower(translator, request, search, beam=beam, ids=ids, moved=moved) for beam in range(1, search.beam)
    ]
    tokens = sorted({candidate.token for step in tree.steps for candidate in step.candidates})
    pieces = pieces_of(translator.tokenizers.target, tokens, source.unknown)
    names = dict(zip(tokens, pieces, strict=True))
    view = BeamView(search.beam, nbest, tree, names, tree.path(ids), narrower)
    return _Found(ids, best.text, best.cut, best, view)


def _narrower(
    translator: Translator,
    request: Request,
    search: SearchConfig,
    *,
    beam: int,
    ids: Sequence[int],
    moved: MovedAttention,
) -> NarrowerBeam:
    """The result of the same search with a narrower beam.

    The number of groups stays the same if it divides the beam; otherwise there is one group.
    """
    groups = search.groups if beam % search.groups == 0 else 1
    narrow = search.model_copy(update={"beam": beam, "groups": groups})
    recorder = _recorder(narrow, nbest=1)
    request = request._replace(search=narrow, nbest=1)
    engine = translator.engine()
    best = engine.answer(request, observer=recorder, interventions=moved.interventions).candidates[0]
    assert best.detail is not None
    finds = [*best.detail.ids, *([] if best.cut else [EOS])] == list(ids)
    return NarrowerBeam(beam, finds, None if finds else recorder.tree.lost_at(ids), best.text, best.score)


def _recorder(search: SearchConfig, *, nbest: int) -> BeamRecorder:
    return BeamRecorder(scoring_of(search), nbest=nbest, end=EOS, stops_exactly=search.stopping == "exact")


def _given(models: TranslationModels, target: str, source: NumberedText) -> _Found:
    (encoded,) = models.encode_targets([target], [source])
    ids = list(encoded.numbered.ids)
    return _Found(ids if encoded.cut else [*ids, EOS], target, encoded.cut, None, None)


def _read(
    models: TranslationModels,
    source: Sequence[int],
    target: Sequence[int],
    *,
    search: SearchConfig,
    moved: MovedAttention,
) -> Reading:
    """What the model computes for the target; in an ensemble, attention is that of the first model.

    The probabilities are those of the whole ensemble.
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
    """The log-probabilities [T,V] of the next piece at each position, under an ensemble as a whole."""
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
    """Raises a ConfigError for a move at a piece that the translation does not have."""
    late = [move.target for move in moves if move.target > pieces]
    if late:
        raise ConfigError(f"attention cannot be moved at target piece {late[0]}: the translation has {pieces}")


def _view(
    models: TranslationModels,
    source: NumberedText,
    found: _Found,
    reading: Reading,
    saliency: list[Saliency],
    *,
    source_cut: bool,
) -> SentenceView:
    tokenizers, candidate = models.tokenizers, found.candidate
    source_pieces = pieces_of(tokenizers.source, source.ids, source.unknown)
    pieces = pieces_of(tokenizers.target, found.ids if found.is_cut else found.ids[:-1], source.unknown)
    source_words = words_of([tokenizers.source.starts_word(piece) for piece in source_pieces])
    target_words = words_of([tokenizers.target.starts_word(piece) for piece in pieces])
    attention = reading.attention
    steps = _steps(models, found.ids, reading, unknown=source.unknown)
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
        sum(step.log_prob for step in steps) if candidate is None else candidate.log_prob,
        _score(found),
        None if candidate is None else candidate.confidence,
        steps,
        reading.maps,
        None if attention is None else align(attention, source_words=source_words, target_words=target_words),
        None if attention is None else attention.sum(dim=0).tolist(),
        saliency,
        found.beam,
        source,
        found.ids,
    )


def _score(found: _Found) -> ScoreParts | None:
    """The terms of the translation's score; None if it was cut, given, or not found by beam search."""
    if found.beam is None or found.candidate is None:
        return None
    ended = {candidate.id: candidate.score for step in found.beam.tree.steps for candidate in step.candidates}
    return ended.get(found.beam.answer[-1]) if found.beam.answer else None


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
