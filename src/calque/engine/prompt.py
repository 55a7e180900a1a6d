"""Decoding steps of a language model that continue a prompt, which the model reads in one pass.

Letters: N hypotheses, P tokens of the prompt, M positions, E width, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.models.language_model import LanguageModel
from calque.search.constraints import NoRepeat
from calque.search.step import Step, StepOutput

POSITIONS = 4096  # that pass through the output layer together


class PromptState(NamedTuple):
    """The state of a decoding step that continues a prompt."""

    inner: Any  # the step's state after all tokens of the prompt but the last
    tokens: Tensor  # [N,P], the tokens of the prompt that search has yet to append
    log_probs: Tensor  # [N,P], their log-probabilities


class HistoryState(NamedTuple):
    """The state of a decoding step that forbids repeated n-grams: its inner state, and the tokens so far."""

    inner: Any
    history: Tensor  # [N,t], the tokens read so far


def read_prompt(model: LanguageModel, ids: Sequence[int], *, start: int) -> tuple[Tensor, Any]:
    """Reads the start mark (`start`) and all tokens of a prompt but the last.

    Returns the hidden vectors [1,P,E], of which the i-th predicts token i of the prompt, and the state after reading.
    """
    inputs = torch.tensor([[start, *ids[:-1]]], device=next(model.parameters()).device)
    read, state = model.read(inputs, model.start(1))
    return read.hidden, state


def token_log_probs(model: LanguageModel, hidden: Tensor, tokens: Tensor) -> Tensor:
    """The log-probabilities [M] of tokens [M] given hidden vectors [M,E], computed in chunks to bound memory."""
    parts = [slice(at, at + POSITIONS) for at in range(0, len(tokens), POSITIONS)]
    return -torch.cat([model.losses(hidden[part], tokens[part]) for part in parts])


def prompted(step: Step, *, vocabulary_size: int) -> Step:
    """A decoding step that continues a prompt: search first appends the prompt's tokens, with known log-probabilities.

    Hypotheses contain the prompt, so that lengths, scores and random numbers include it; the model reads it only once.
    """

    def prompted_step(tokens: Tensor, state: PromptState, context: Any) -> tuple[StepOutput, PromptState]:
        if state.tokens.shape[1] == 0:
            output, inner = step(tokens, state.inner, context)
            return output, state._replace(inner=inner)
        log_probs = state.log_probs.new_full((len(tokens), vocabulary_size), -torch.inf)
        log_probs = log_probs.scatter(1, state.tokens[:, :1], state.log_probs[:, :1])
        return StepOutput(log_probs), PromptState(state.inner, state.tokens[:, 1:], state.log_probs[:, 1:])

    return prompted_step


def without_repetition(step: Step, *, size: int) -> Step:
    """A decoding step that never generates an n-gram of the prompt or of the generated text again (`NoRepeat`).

    The prompt itself may contain an n-gram twice.
    """
    rule = NoRepeat(size)

    def unrepeated_step(tokens: Tensor, state: HistoryState, context: Any) -> tuple[StepOutput, HistoryState]:
        output, inner = step(tokens, state.inner, context)
        history = rule.read(tokens, state.history)
        log_probs = rule.allow(output.log_probs, history, sentence=torch.zeros_like(tokens))
        return output._replace(log_probs=log_probs), HistoryState(inner, history)

    return unrepeated_step
