"""Decoding of a batch according to the search settings.

Letters: B sentences, V vocabulary.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.errors import ConfigError, TextError
from calque.search.beam import BestK, Expansion, Goal, beam_search
from calque.search.constraints import Constraint, NoRepeat, Prefix, constrained, start_constrained
from calque.search.diverse import Diverse
from calque.search.fast_beam import fast_beam_search
from calque.search.fixed_beam import FixedStep, FixedSteps, fixed_beam_search
from calque.search.forbidden_words import Forbidden
from calque.search.greedy import fast_greedy_search, greedy_search
from calque.search.observers import NO_HOOKS, Hooks
from calque.search.required_phrases import Required
from calque.search.sampling import Sampling, sample_search
from calque.search.scoring import Scoring
from calque.search.settings import SearchConfig
from calque.search.step import NO_ANSWER, BestStep, Hypothesis, Limits, Marks, Step


class Rules(NamedTuple):
    """The constraints on the translations of a batch."""

    prefixes: Sequence[Sequence[int]] = ()  # one per sentence, or empty for no prefixes at all
    required: Sequence[Sequence[Sequence[int]]] = ()  # phrases per sentence, or empty for no phrases at all
    follows: Tensor | None = None  # [B,V], tokens that may follow a required phrase, see `Required`
    opens: Tensor | None = None  # [B,V], tokens after which a phrase may start whatever its first token is
    forbidden: Forbidden | None = None


def decode(
    step: Step,
    state: Any,
    context: Any,
    *,
    source_lengths: Tensor,
    limits: Limits,
    search: SearchConfig,
    marks: Marks,
    rules: Rules,
    nbest: int,
    streams: Tensor | None = None,
    hooks: Hooks = NO_HOOKS,
    fixed: FixedSteps | None = None,
) -> list[list[Hypothesis]]:
    """At least one hypothesis per sentence: the `nbest` best or, when sampling, all samples.

    `source_lengths` [B] include end marks; `streams` [B] identifies each sentence's random stream, which sampling
    needs. Length limits and constraints apply to every method. A hypothesis that reaches a point where no token is
    allowed is discarded; if none is left, the result is NO_ANSWER, with missing_phrase set if phrases were required.
    With `fixed`, which needs `allows_fixed_steps`, search runs on tensors of fixed shape.
    """
    constraints = _constraints(search, rules, limits=limits)
    if constraints:
        state, context = start_constrained(
            constraints, state=state, context=context, sentences=len(source_lengths), device=source_lengths.device
        )
        step = constrained(step, constraints)
    if any(rules.required):
        check_phrases_supported(search)
    if search.method != "beam":
        assert streams is not None
        sampling = Sampling(search.temperature, search.top_k, search.top_p, search.min_p)
        draws = nbest if search.method == "sample" else search.samples
        hypotheses = sample_search(
            step,
            state,
            context,
            sampling=sampling,
            draws=draws,
            streams=streams,
            limits=limits,
            marks=marks,
            hooks=hooks,
        )
    elif search.is_greedy and fixed is None and not any(rules.required):
        if isinstance(step, BestStep) and hooks.observer is None:
            hypotheses = fast_greedy_search(step, state, context, limits=limits, marks=marks, hooks=hooks)
        else:
            hypotheses = greedy_search(step, state, context, limits=limits, marks=marks, hooks=hooks)
    else:
        with_beams = partial(
            _choose_beam_search(step, search, rules, hooks, fixed=fixed),
            goal=Goal(scoring_of(search), nbest, _stop_after(search)),
            limits=limits,
            marks=marks,
            source_lengths=source_lengths,
            hooks=hooks,
        )
        hypotheses = with_beams(step, state, context)
    required = rules.required or [()] * len(hypotheses)
    return [
        n_best or [NO_ANSWER._replace(missing_phrase=bool(phrases))]
        for n_best, phrases in zip(hypotheses, required, strict=True)
    ]


def _choose_beam_search(
    step: Step, search: SearchConfig, rules: Rules, hooks: Hooks, *, fixed: FixedSteps | None
) -> Callable[..., list[list[Hypothesis]]]:
    """The beam search to use: on fixed shapes if `fixed`, else the fast one if it applies, else the reference."""
    if fixed is not None:
        assert isinstance(step, FixedStep)
        return partial(fixed_beam_search, beams=search.beam, fixed=fixed)
    if isinstance(step, BestStep) and _is_plain(search, rules, hooks):
        return partial(fast_beam_search, beams=search.beam)
    return partial(beam_search, expansion=_expansion(search, rules))


def allows_fixed_steps(search: SearchConfig, rules: Rules, hooks: Hooks) -> bool:
    """Whether search can run on tensors of fixed shape: plain beam or greedy search over all words."""
    has_constraints = any(rules.prefixes) or search.no_repeat or rules.forbidden is not None or search.shortlist
    return search.method == "beam" and not has_constraints and _is_plain(search, rules, hooks)


def check_phrases_supported(search: SearchConfig) -> None:
    """Raises an error if the search method cannot enforce required phrases."""
    if search.method != "beam" or search.groups > 1:
        setting = f"method = {search.method!r}" if search.method != "beam" else f"groups = {search.groups}"
        raise ConfigError(f"required phrases cannot be combined with search.{setting}; use beam search with groups = 1")


def scoring_of(search: SearchConfig) -> Scoring:
    """The score function that ranks finished hypotheses, with the parameters of the search settings."""
    return Scoring(
        search.length_penalty, search.coverage, search.end_normalisation, search.reward, search.normalisation
    )


def limits_of(source_lengths: Tensor, *, search: SearchConfig) -> Limits:
    """The length limits of the translations of sources of these lengths [B].

    All lengths include end marks: a source or translation of n pieces has length n + 1.
    """
    rows = [piece_limits(length - 1, search=search) for length in source_lengths.tolist()]
    return limits_of_pieces(rows, device=source_lengths.device)


def limits_of_pieces(rows: Sequence[tuple[int, int]], *, device: torch.device) -> Limits:
    """The length limits of a batch, given the minimum and maximum number of pieces of each sentence's translation."""
    minimum, maximum = torch.tensor(rows, device=device).view(-1, 2).unbind(1)
    return Limits(maximum + 1, minimum + 1)


def piece_limits(pieces: int, *, search: SearchConfig, longest: int | None = None) -> tuple[int, int]:
    """The minimum and maximum number of pieces in the translation of a source of `pieces` pieces.

    `longest` is a further maximum, learnt from training data, which search.learnt_maximum can turn off. Ratios are
    computed in decimal, as written: 0.1 × 30 is 3, which binary floats do not give exactly. The minimum takes
    precedence over maximum_ratio and `longest`; a minimum above an explicit maximum is an error.
    """
    minimum = max(math.ceil(Fraction(str(search.minimum_ratio)) * pieces), search.minimum)
    if search.maximum is not None and minimum > search.maximum:
        raise TextError(
            f"the translation of a source of {pieces} pieces must have at least {minimum} pieces "
            f"(search.minimum_ratio = {search.minimum_ratio}) but at most {search.maximum} (search.maximum); "
            "change one of them"
        )
    maximum = min(math.floor(Fraction(str(search.maximum_ratio)) * pieces) + search.maximum_extra, search.most)
    if longest is not None and search.learnt_maximum:
        maximum = min(maximum, longest)
    return minimum, max(minimum, maximum)


def _constraints(search: SearchConfig, rules: Rules, *, limits: Limits) -> list[Constraint]:
    constraints: list[Constraint] = []
    if any(rules.prefixes):
        constraints.append(Prefix(rules.prefixes))
    if search.no_repeat:
        constraints.append(NoRepeat(search.no_repeat))
    if rules.forbidden is not None:
        constraints.append(rules.forbidden.with_maximum(limits.maximum - 1))  # pieces, without the end mark
    return constraints


def _expansion(search: SearchConfig, rules: Rules) -> Expansion:
    if any(rules.required):
        assert rules.follows is not None
        assert rules.opens is not None
        return Required(search.beam, rules.required, follows=rules.follows, opens=rules.opens)
    if search.groups > 1:
        return Diverse(search.beam, groups=search.groups, strength=search.diversity)
    return BestK(search.beam)


def _is_plain(search: SearchConfig, rules: Rules, hooks: Hooks) -> bool:
    """Whether the fast beam search supports these settings, rules and hooks.

    Constraints on the next token are not checked here: with them, the step function is no `BestStep`, and without a
    `BestStep` the fast beam search is not used anyway.
    """
    return search.groups == 1 and not search.coverage and not any(rules.required) and hooks.observer is None


def _stop_after(search: SearchConfig) -> int | None:
    match search.stopping:
        case "exact":
            return None
        case "first":
            return search.beam
        case "patience":
            return math.ceil(search.patience * search.beam)
