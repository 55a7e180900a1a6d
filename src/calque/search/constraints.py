"""Constraints on the next token: they wrap the step function, and each adds its own state to the model's state.

Letters: B sentences, K beams, N = B·K, V vocabulary, P prefix, t tokens so far.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from calque.search.step import Step, StepOutput


class Constraint(Protocol):
    """A rule for the next token. Its state, like that of a model, is a tree of tensors with one row per hypothesis."""

    def start(self, sentences: int, *, device: torch.device) -> Any:
        """The state before the first token, one row per sentence."""
        ...

    def read(self, tokens: Tensor, state: Any) -> Any:
        """The state after one more token [N] per hypothesis."""
        ...

    def allow(self, log_probs: Tensor, state: Any, *, sentence: Tensor) -> Tensor:
        """The log-probabilities [N,V], with −∞ for forbidden next tokens; row n belongs to sentence[n] of the batch."""
        ...


class SentenceIndices(NamedTuple):
    """The indices of the sentences that are still in the batch; one row per sentence."""

    sentence: Tensor  # [B], index among the sentences that search started with


def constrained(step: Step, constraints: Sequence[Constraint]) -> Step:
    """A step function that applies all constraints to the log-probabilities of `step`.

    Its state is a triple: the state of `step`, a marker that is None before the first token, and the constraints'
    states. `start_constrained` creates it.
    """

    def constrained_step(tokens: Tensor, state: Any, context: Any) -> tuple[StepOutput, Any]:
        inner_state, has_started, rule_states = state
        inner_context, indices = context
        output, inner_state = step(tokens, inner_state, inner_context)
        if has_started is not None:  # the first token read is the start mark, which no constraint applies to
            rule_states = tuple(
                rule.read(tokens, rule_state) for rule, rule_state in zip(constraints, rule_states, strict=True)
            )
        sentence = indices.sentence.repeat_interleave(len(tokens) // len(indices.sentence))
        log_probs = output.log_probs
        for rule, rule_state in zip(constraints, rule_states, strict=True):
            log_probs = rule.allow(log_probs, rule_state, sentence=sentence)
        return output._replace(log_probs=log_probs), (inner_state, torch.ones_like(tokens), rule_states)

    return constrained_step


def start_constrained(
    constraints: Sequence[Constraint], *, state: Any, context: Any, sentences: int, device: torch.device
) -> Any:
    """The initial state and the context of a `constrained` step function, given those of the inner step."""
    rule_states = tuple(rule.start(sentences, device=device) for rule in constraints)
    return (state, None, rule_states), (context, SentenceIndices(torch.arange(sentences, device=device)))


class Prefix:
    """Forces each sentence's hypotheses to start with its prefix, whose tokens are scored like any others."""

    def __init__(self, tokens: Sequence[Sequence[int]]) -> None:
        longest = max((len(row) for row in tokens), default=0)
        self.tokens = torch.tensor([[*row, *[-1] * (longest - len(row))] for row in tokens]).view(len(tokens), longest)

    def start(self, sentences: int, *, device: torch.device) -> Tensor:
        """The initial state: the number [N] of tokens read, which is 0."""
        self.tokens = self.tokens.to(device)
        return torch.zeros(sentences, dtype=torch.long, device=device)

    def read(self, tokens: Tensor, state: Tensor) -> Tensor:
        return state + 1

    def allow(self, log_probs: Tensor, state: Tensor, *, sentence: Tensor) -> Tensor:
        if self.tokens.shape[1] == 0:
            return log_probs
        index = state.clamp(max=self.tokens.shape[1] - 1)
        required = self.tokens[sentence, index].masked_fill(state >= self.tokens.shape[1], -1)
        differs = torch.arange(log_probs.shape[-1], device=log_probs.device) != required[:, None]
        return log_probs.masked_fill(differs & (required >= 0)[:, None], -torch.inf)


class NoRepeat:
    """Forbids repetition: no n-gram of `size` tokens may occur twice in a hypothesis."""

    def __init__(self, size: int) -> None:
        self.size = size

    def start(self, sentences: int, *, device: torch.device) -> Tensor:
        """The initial state: the tokens [N,t] read so far, of which there are none."""
        return torch.zeros(sentences, 0, dtype=torch.long, device=device)

    def read(self, tokens: Tensor, state: Tensor) -> Tensor:
        return torch.cat([state, tokens[:, None]], dim=1)

    def allow(self, log_probs: Tensor, state: Tensor, *, sentence: Tensor) -> Tensor:
        if state.shape[1] < self.size:
            return log_probs
        ngrams = state.unfold(1, self.size, 1)  # [N,t−size+1,size]
        recent = state[:, state.shape[1] - self.size + 1 :]
        is_repeated = (ngrams[..., :-1] == recent[:, None]).all(dim=-1)
        # Where nothing is repeated, the index is one past the vocabulary, and that column is dropped.
        banned = torch.where(is_repeated, ngrams[..., -1], log_probs.shape[-1])
        padded = torch.nn.functional.pad(log_probs, (0, 1))
        return padded.scatter(1, banned, -torch.inf)[:, :-1]
