"""Decodes one batch: searches for hypotheses, and turns them into candidates."""

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import torch

from calque.engine.constraints import rules_of
from calque.engine.ensemble import Decoding, Ensemble, start_decoding, start_with_graphs
from calque.engine.forced_decoding import force_decode
from calque.engine.postprocessing import Postprocessor
from calque.engine.preparation import Part, Settings
from calque.engine.sampling_seeds import streams
from calque.engine.shortlist import is_too_improbable, word_lists
from calque.engine.translation_models import TranslationModels
from calque.engine.types import Candidate
from calque.layers.observers import AttentionObserver, ChangeWeights, change_attention, observe_attention
from calque.layers.shortlist import WordLists
from calque.objectives.decoding_step import MARKS, pad_source
from calque.search.decode import allows_fixed_steps, decode, limits_of_pieces
from calque.search.fixed_beam import FixedSteps, room_for, usual_size
from calque.search.interventions import Intervention, intervened, start_intervened
from calque.search.observers import Hooks, SearchObserver
from calque.search.step import Hypothesis, clear_step


class ChangeAttention(NamedTuple):
    """An intervention that replaces the attention weights computed by one layer."""

    layer: str  # its name in the model, see `attention_layers`
    change: ChangeWeights


class Inspection(NamedTuple):
    """The observers of a batch, and the interventions in its decoding."""

    search: SearchObserver | None = None
    attention: AttentionObserver | None = None
    steps: Sequence[Intervention] = ()
    weights: Sequence[ChangeAttention] = ()


UNWATCHED = Inspection()


@torch.inference_mode()
def decode_batch(
    models: TranslationModels,
    parts: Sequence[Part],
    settings: Settings,
    *,
    give_up: Callable[[], Collection[int]] | None = None,
    inspection: Inspection = UNWATCHED,
) -> list[list[Candidate]]:
    """The candidates for each part: a whole text, or one part of a text that was split.

    With a shortlist, a part whose translation is too improbable has no candidates: it must be decoded again without
    the shortlist.

    `give_up` is called at every step of search and returns the indices of parts whose requests were cancelled or have
    timed out. Search then drops these parts, and they may have no candidates.
    """
    with ExitStack() as stack:
        stack.enter_context(models.model.evaluating())
        for item in inspection.weights:
            stack.enter_context(change_attention(models.model, item.layer, item.change))
        with ExitStack() as watched:
            if inspection.attention is not None:
                watched.enter_context(observe_attention(models.model, inspection.attention))
            hooks = Hooks(inspection.search, give_up)
            hypotheses = _search(models, parts, settings, hooks=hooks, inspection=inspection)
        sources = [part.source for part in parts]
        candidates = _postprocessor(models, settings).candidates(sources, hypotheses, settings=settings)
        if not settings.search.shortlist:
            return candidates
        threshold = settings.search.shortlist_threshold
        return [
            []
            if not ranked or is_too_improbable(ranked[0], threshold=threshold)
            else [item._replace(shortlisted=True) for item in ranked]
            for ranked in candidates
        ]


def _search(
    models: TranslationModels,
    parts: Sequence[Part],
    settings: Settings,
    *,
    hooks: Hooks,
    inspection: Inspection,
) -> list[list[Hypothesis]]:
    search, device = settings.search, models.device
    constraints = [part.constraints for part in parts]
    rules = rules_of(constraints, target=models.tokenizers.target, forbidden=settings.forbidden)
    ids, limits = [part.source.ids for part in parts], [part.limits for part in parts]
    fixed = None
    if _has_fixed_steps(models) and inspection == UNWATCHED and allows_fixed_steps(search, rules, hooks):
        assert models.graphs is not None
        fillers = usual_size(len(parts)) - len(parts)
        ids, limits = [*ids, *[[]] * fillers], [*limits, *[(0, 1)] * fillers]
        source = pad_source(ids, size=usual_size)
        room = room_for(int(source.lengths.max()), longest=max(most for _, most in limits) + 1)
        fixed = FixedSteps(models.graphs, len(parts), room)
        decoding = start_with_graphs(models.model, source, graphs=models.graphs)
    else:
        source = pad_source(ids).to(device)
        lists: WordLists | None = None
        if search.shortlist:
            assert models.shortlist is not None
            lists = word_lists(models.shortlist, ids, constraints, device=device)
        decoding = start_decoding(
            models.model,
            source,
            ensemble=models.ensemble,
            search=search,
            attention=search.coverage > 0,
            lists=lists,
            indexed=not inspection.steps,
        )
    if inspection.attention is not None or inspection.weights:
        decoding = decoding._replace(step=clear_step(decoding.step))
    if inspection.steps:
        state = start_intervened(decoding.state, rows=len(parts), device=device)
        decoding = Decoding(intervened(decoding.step, inspection.steps), state, decoding.context)
    samples = search.method != "beam"
    return decode(
        *decoding,
        source_lengths=source.lengths.to(device),
        limits=limits_of_pieces(limits, device=device),
        search=search,
        marks=MARKS,
        rules=rules,
        nbest=settings.nbest,
        streams=streams([part.place for part in parts], seed=search.seed).to(device) if samples else None,
        hooks=hooks,
        fixed=fixed,
    )


def _has_fixed_steps(models: TranslationModels) -> bool:
    """Whether decoding steps can be captured as CUDA graphs, which ensembles and models that copy words prevent."""
    model = models.model
    return (
        models.graphs is not None
        and models.ensemble == Ensemble()
        and model.decoder.has_fixed_state
        and not model.copies
    )


def _postprocessor(models: TranslationModels, settings: Settings) -> Postprocessor:
    # confidence is calibrated on translations that search finds, not on samples
    confidence = models.confidence if settings.search.method == "beam" else None
    alone = partial(force_decode, models.model) if models.ensemble.language is not None else None
    decoder = partial(models.force_decode, search=settings.search)
    return Postprocessor(decoder, models.tokenizers, settings.forbidden, confidence, alone)
