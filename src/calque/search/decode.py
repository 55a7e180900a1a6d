"""From settings to answers: puts the parts of search together for a batch.

Letters: B sentences, V vocabulary.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.errors import ConfigError, TextError
from calque.search.beam import Expansion, Goal, Widest, beam_search
from calque.search.constraints import Constraint, NoRepeat, Prefix, constrained, start_constrained
from calque.search.diverse import Diverse
from calque.search.forbidden_words import Forbidden
from calque.search.greedy import greedy_search
from calque.search.required_phrases import Required
from calque.search.sampling import Sampling, sample_search
from calque.search.scoring import Scoring
from calque.search.settings import SearchConfig
from calque.search.step import NO_ANSWER, Hypothesis, Limits, Marks, Step


class Rules(NamedTuple):
    """What the translations of a batch must and must not say."""

    prefixes: Sequence[Sequence[int]] = ()  # one a sentence, or none at all
    required: Sequence[Sequence[Sequence[int]]] = ()  # phrases of each sentence, or none at all
    follows: Tensor | None = None  # [B,V], tokens that may come after a required phrase of a sentence, see `Required`
    opens: Tensor | None = None  # [B,V], tokens after which one may begin, whatever its first token is
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
    """The answers to each sentence, at least one: the `nbest` best, or, where they are drawn, all that were.

    `source_lengths` [B] counts end marks; `streams` [B] tells sentences apart where they are drawn. Length limits and
    constraints hold for every method. A hypothesis after which no token may come is none: where there is no other, the
    answer is NO_ANSWER, missing_phrase where there are phrases.
    """
    limits = limits_of(source_lengths, search=search)
    constraints = _constraints(search, rules, limits=limits)
    if constraints:
        state, context = start_constrained(
            constraints, state=state, context=context, sentences=len(streams), device=source_lengths.device
        )
        step = constrained(step, constraints)
    if any(rules.required):
        refuse_lost(search)
    if search.method != "beam":
        sampling = Sampling(search.temperature, search.top_k, search.top_p, search.min_p)
        draws = nbest if search.method == "sample" else search.samples
        found = sample_search(
            step, state, context, sampling=sampling, draws=draws, streams=streams, limits=limits, marks=marks
        )
    elif search.is_greedy and not any(rules.required):
        found = greedy_search(step, state, context, limits=limits, marks=marks)
    else:
        found = beam_search(
            step,
            state,
            context,
            expansion=_expansion(search, rules),
            goal=Goal(scoring_of(search), nbest, _stop_after(search)),
            limits=limits,
            marks=marks,
            source_lengths=source_lengths,
        )
    wanted = rules.required or [()] * len(found)
    return [
        answers or [NO_ANSWER._replace(missing_phrase=bool(phrases))]
        for answers, phrases in zip(found, wanted, strict=True)
    ]


def refuse_lost(search: SearchConfig) -> None:
    """Raises an error where search could not see to phrases that must appear."""
    if search.method != "beam" or search.groups > 1:
        way = f"method = {search.method!r}" if search.method != "beam" else f"groups = {search.groups}"
        raise ConfigError(f"phrases that must appear and search.{way} do not go together; use beam search, groups = 1")


def scoring_of(search: SearchConfig) -> Scoring:
    """How finished hypotheses are ranked."""
    return Scoring(
        search.length_penalty, search.coverage, search.end_normalisation, search.reward, search.normalisation
    )


def limits_of(source_lengths: Tensor, *, search: SearchConfig) -> Limits:
    """Lengths count end marks: a source of n pieces has length n + 1, and so has a translation of n."""
    rows = [piece_limits(length - 1, search=search) for length in source_lengths.tolist()]
    minimum, maximum = torch.tensor(rows, device=source_lengths.device).view(-1, 2).unbind(1)
    return Limits(maximum + 1, minimum + 1)


def piece_limits(pieces: int, *, search: SearchConfig) -> tuple[int, int]:
    """How many pieces the translation of a source with so many has at least and at most.

    Ratios are taken as they are written, in decimals: 0.1 × 30 is 3, which no float says exactly. What must be said
    goes before maximum_ratio, and against a maximum that was asked for it is refused.
    """
    minimum = max(math.ceil(Fraction(str(search.minimum_ratio)) * pieces), search.minimum)
    if search.maximum is not None and minimum > search.maximum:
        raise TextError(
            f"a translation of {pieces} pieces must have at least {minimum} (search.minimum_ratio = "
            f"{search.minimum_ratio}) and at most {search.maximum} (search.maximum); change one of them"
        )
    maximum = min(math.floor(Fraction(str(search.maximum_ratio)) * pieces) + search.maximum_extra, search.most)
    return minimum, max(minimum, maximum)


def _constraints(search: SearchConfig, rules: Rules, *, limits: Limits) -> list[Constraint]:
    constraints: list[Constraint] = []
    if any(rules.prefixes):
        constraints.append(Prefix(rules.prefixes))
    if search.no_repeat:
        constraints.append(NoRepeat(search.no_repeat))
    if rules.forbidden is not None:
        constraints.append(rules.forbidden.within(limits.maximum - 1))  # the last piece, where it is cut
    return constraints


def _expansion(search: SearchConfig, rules: Rules) -> Expansion:
    if any(rules.required):
        assert rules.follows is not None
        assert rules.opens is not None
        return Required(search.beam, rules.required, follows=rules.follows, opens=rules.opens)
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
