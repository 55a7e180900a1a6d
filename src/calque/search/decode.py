"""From settings to answers: puts the parts of search together for a batch.

Letters: B sentences, V vocabulary.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.search.beam import Expansion, Widest, beam_search
from calque.search.constraints import Constraint, NoRepeat, Prefix, begin, constrained
from calque.search.diverse import Diverse
from calque.search.forbidden import Forbidden
from calque.search.greedy import greedy_search
from calque.search.required import Required
from calque.search.sampling import Sampling, sample_search
from calque.search.scoring import Scoring
from calque.search.settings import SearchConfig
from calque.search.step import Hypothesis, Limits, Marks, Step


class Rules(NamedTuple):
    """What the translations of a batch must and must not say."""

    prefixes: Sequence[Sequence[int]] = ()  # one a sentence, or none at all
    required: Sequence[Sequence[Sequence[int]]] = ()  # phrases of each sentence, or none at all
    follows: Tensor | None = None  # [B,V], tokens that may come after a required phrase of a sentence
    forbidden: Forbidden | None = None


def decode(
    step: Step,
    state: Any,
    context: Any,
    *,
    source_lengths: Tensor,
    search: SearchConfig,
    marks: Marks,
    rules: Rules,
    nbest: int,
    streams: Tensor,
) -> list[list[Hypothesis]]:
    """The answers to each sentence: the `nbest` best, or, where they are drawn, all that were.

    `source_lengths` [B] counts end marks; `streams` [B] tells sentences apart where they are drawn. Length limits and
    constraints hold for every method.
    """
    limits = limits_of(source_lengths, search=search)
    constraints = _constraints(search, rules, limits=limits)
    if constraints:
        state, context = begin(
            constraints, state=state, context=context, sentences=len(streams), device=source_lengths.device
        )
        step = constrained(step, constraints)
    if search.method != "beam":
        sampling = Sampling(search.temperature, search.top_k, search.top_p, search.min_p)
        draws = nbest if search.method == "sample" else search.samples
        return sample_search(
            step, state, context, sampling=sampling, draws=draws, streams=streams, limits=limits, marks=marks
        )
    if search.is_greedy and not any(rules.required):
        return [[each] for each in greedy_search(step, state, context, limits=limits, marks=marks)]
    return beam_search(
        step,
        state,
        context,
        expansion=_expansion(search, rules),
        nbest=nbest,
        limits=limits,
        marks=marks,
        score=scoring_of(search),
        source_lengths=source_lengths,
        stop_after=_stop_after(search),
    )


def scoring_of(search: SearchConfig) -> Scoring:
    """How finished hypotheses are ranked."""
    return Scoring(
        search.length_penalty, search.coverage, search.end_normalisation, search.reward, search.normalisation
    )


def limits_of(source_lengths: Tensor, *, search: SearchConfig) -> Limits:
    """Lengths count end marks: a source of n pieces has length n + 1, and a translation is cut at so many pieces."""
    pieces = source_lengths - 1
    minimum = (pieces * search.minimum_ratio).ceil().long().clamp(min=search.minimum) + 1
    maximum = ((pieces * search.maximum_ratio).long() + search.maximum_extra).clamp(max=search.most)
    return Limits(torch.maximum(maximum, minimum), minimum)


def _constraints(search: SearchConfig, rules: Rules, *, limits: Limits) -> list[Constraint]:
    constraints: list[Constraint] = []
    if any(rules.prefixes):
        constraints.append(Prefix(rules.prefixes))
    if search.no_repeat:
        constraints.append(NoRepeat(search.no_repeat))
    if rules.forbidden is not None:
        constraints.append(rules.forbidden.within(limits.maximum))
    return constraints


def _expansion(search: SearchConfig, rules: Rules) -> Expansion:
    if any(rules.required):
        assert rules.follows is not None
        return Required(search.beam, rules.required, follows=rules.follows)
    if search.groups > 1:
        return Diverse(search.beam, groups=search.groups, strength=search.diversity)
    return Widest(search.beam)


def _stop_after(search: SearchConfig) -> int | None:
    match search.stopping:
        case "exact":
            return None
        case "first":
            return search.beam
        case "patience":
            return math.ceil(search.patience * search.beam)
