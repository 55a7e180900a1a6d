"""Greedy search: the most likely token at every step. Letters: N sentences, V vocabulary."""

from typing import Any

from torch import Tensor

from calque.search.autoregressive import autoregressive_search
from calque.search.observers import NO_HOOKS, Hooks
from calque.search.step import Hypothesis, Limits, Marks, Step


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

    return autoregressive_search(
        step,
        state,
        context,
        choose=most_likely,
        count=1,
        limits=limits,
        marks=marks,
        hooks=hooks,
    )
