"""Greedy search: the most likely token at every step. Letters: N sentences, V vocabulary, C best tokens."""

from typing import Any

from torch import Tensor

from calque.search.autoregressive import Position, Propose, Proposed, autoregressive_search, choosing
from calque.search.observers import NO_HOOKS, Hooks
from calque.search.step import BestStep, Hypothesis, Limits, Marks, Step, allowed_best


def greedy_search(
    step: Step,
    state: Any,
    context: Any,
    *,
    limits: Limits,
    marks: Marks,
    hooks: Hooks = NO_HOOKS,
) -> list[list[Hypothesis]]:
    """One hypothesis per sentence, or none if it reaches a point where no token is allowed."""

    def most_likely(log_probs: Tensor, _index: Tensor, _length: int) -> Tensor:
        return log_probs.max(dim=-1).indices

    propose = choosing(step, most_likely, marks=marks)
    return autoregressive_search(propose, state, context, count=1, limits=limits, marks=marks, hooks=hooks)


def fast_greedy_search(
    step: BestStep,
    state: Any,
    context: Any,
    *,
    limits: Limits,
    marks: Marks,
    hooks: Hooks = NO_HOOKS,
) -> list[list[Hypothesis]]:
    """The result of `greedy_search`, computed with a step function that returns only the best tokens."""
    propose = _first_allowed(step, marks=marks)
    return autoregressive_search(propose, state, context, count=1, limits=limits, marks=marks, hooks=hooks)


def _first_allowed(step: BestStep, *, marks: Marks) -> Propose:
    count = len(marks.never) + 2  # special tokens and a premature end mark may be better than the best allowed token

    def propose(last: Tensor, state: Any, context: Any, position: Position) -> Proposed:
        best, state = step.best(last, state, context, slots=None, count=count, end=marks.end)
        log_probs, tokens = allowed_best(best, marks=marks, length=position.length, limits=position.limits)
        values, places = log_probs.max(dim=1)
        return Proposed(tokens.gather(1, places[:, None]).squeeze(1), values, state)

    return propose
