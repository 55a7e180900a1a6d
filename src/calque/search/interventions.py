"""Interventions in decoding: a forced token, a replaced state. Letters: N hypotheses, V vocabulary."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from calque.search.step import Step, StepOutput


class Intervention(Protocol):
    """Changes the decoder's state or the token probabilities at chosen steps."""

    def state(self, state: Any, *, length: int) -> Any:
        """The state from which token number `length`, counted from 1, is predicted: `state` or a changed copy of it."""
        ...

    def log_probs(self, log_probs: Tensor, *, length: int) -> Tensor:
        """The log-probabilities [N,V] to use for token number `length`: the given ones, or changed ones."""
        ...


class ForceToken(NamedTuple):
    """Makes a token the only one possible at a position; it keeps its log-probability."""

    length: int  # the position, from 1
    token: int

    def state(self, state: Any, *, length: int) -> Any:
        return state

    def log_probs(self, log_probs: Tensor, *, length: int) -> Tensor:
        if length != self.length:
            return log_probs
        forced = torch.full_like(log_probs, -torch.inf)
        forced[:, self.token] = log_probs[:, self.token]
        return forced


class ReplaceState(NamedTuple):
    """Replaces the decoder's state before a position."""

    length: int  # the position whose token is predicted from the new state, from 1
    change: Callable[[Any], Any]  # from the state to the state to use instead, which must have the same shapes

    def state(self, state: Any, *, length: int) -> Any:
        return self.change(state) if length == self.length else state

    def log_probs(self, log_probs: Tensor, *, length: int) -> Tensor:
        return log_probs


class IntervenedState(NamedTuple):
    """The state of a step function with interventions."""

    inner: Any
    length: Tensor  # [N], tokens read so far


def start_intervened(state: Any, *, rows: int, device: torch.device) -> IntervenedState:
    """The initial state of the step that `intervened` returns; `state` is the initial state of the step it wraps."""
    return IntervenedState(state, torch.zeros(rows, dtype=torch.long, device=device))


def intervened(step: Step, interventions: Sequence[Intervention]) -> Step:
    """A step function that applies the interventions, in this order, to the state and output of `step`."""

    def intervened_step(tokens: Tensor, state: IntervenedState, context: Any) -> tuple[StepOutput, IntervenedState]:
        length, inner = int(state.length.max()) + 1, state.inner
        for intervention in interventions:
            inner = intervention.state(inner, length=length)
        output, inner = step(tokens, inner, context)
        log_probs = output.log_probs
        for intervention in interventions:
            log_probs = intervention.log_probs(log_probs, length=length)
        return output._replace(log_probs=log_probs), IntervenedState(inner, state.length + 1)

    return intervened_step
