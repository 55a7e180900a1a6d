"""What a hypothesis may not say next, as steps around a step; each keeps its own state beside the model's.

Letters: B sentences, K beams, N = B·K, V vocabulary, P prefix, t tokens so far.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from calque.search.step import Step, StepOutput


class Constraint(Protocol):
    """A rule for the next token. Its state is a tree of tensors with one row a hypothesis, as a model's."""

    def start(self, sentences: int, *, device: torch.device) -> Any:
        """The state before any token, one row a sentence."""
        ...

    def read(self, tokens: Tensor, state: Any) -> Any:
        """The state after one more token [N] each."""
        ...

    def allow(self, log_probs: Tensor, state: Any, *, sentence: Tensor) -> Tensor:
        """[N,V] with −∞ where a token may not come next; row n belongs to the batch's sentence[n]."""
        ...


class Bound(NamedTuple):
    """A constraint's place in the batch; rows are sentences."""

    sentence: Tensor  # [B], which of the sentences that search began with


def constrained(step: Step, constraints: Sequence[Constraint]) -> Step:
    """The step under all constraints. Its state is (the step's own, whether it began, theirs): `start_constrained`."""

    def bounded(tokens: Tensor, state: Any, context: Any) -> tuple[StepOutput, Any]:
        inner, begun, rules = state
        own, bound = context
        output, inner = step(tokens, inner, own)
        if begun is not None:  # the first token read is the start mark, which no rule is about
            rules = tuple(rule.read(tokens, each) for rule, each in zip(constraints, rules, strict=True))
        sentence = bound.sentence.repeat_interleave(len(tokens) // len(bound.sentence))
        log_probs = output.log_probs
        for rule, each in zip(constraints, rules, strict=True):
            log_probs = rule.allow(log_probs, each, sentence=sentence)
        return output._replace(log_probs=log_probs), (inner, torch.ones_like(tokens), rules)

    return bounded


def start_constrained(
    constraints: Sequence[Constraint], *, state: Any, context: Any, sentences: int, device: torch.device
) -> Any:
    """The state and context that a constrained step begins with."""
    rules = tuple(rule.start(sentences, device=device) for rule in constraints)
    return (state, None, rules), (context, Bound(torch.arange(sentences, device=device)))


class Prefix:
    """Hypotheses begin with these tokens, each sentence with its own; they cost what the model thinks of them."""

    def __init__(self, tokens: Sequence[Sequence[int]]) -> None:
        longest = max((len(row) for row in tokens), default=0)
        self.tokens = torch.tensor([[*row, *[-1] * (longest - len(row))] for row in tokens]).view(len(tokens), longest)

    def start(self, sentences: int, *, device: torch.device) -> Tensor:
        """[N], how many tokens were read."""
        self.tokens = self.tokens.to(device)
        return torch.zeros(sentences, dtype=torch.long, device=device)

    def read(self, tokens: Tensor, state: Tensor) -> Tensor:
        return state + 1

    def allow(self, log_probs: Tensor, state: Tensor, *, sentence: Tensor) -> Tensor:
        if self.tokens.shape[1] == 0:
            return log_probs
        place = state.clamp(max=self.tokens.shape[1] - 1)
        wanted = self.tokens[sentence, place].masked_fill(state >= self.tokens.shape[1], -1)
        other = torch.arange(log_probs.shape[-1], device=log_probs.device) != wanted[:, None]
        return log_probs.masked_fill(other & (wanted >= 0)[:, None], -torch.inf)


class NoRepeat:
    """No `size` tokens in a row stand twice in a hypothesis."""

    def __init__(self, size: int) -> None:
        self.size = size

    def start(self, sentences: int, *, device: torch.device) -> Tensor:
        """[N,t], what was said."""
        return torch.zeros(sentences, 0, dtype=torch.long, device=device)

    def read(self, tokens: Tensor, state: Tensor) -> Tensor:
        return torch.cat([state, tokens[:, None]], dim=1)

    def allow(self, log_probs: Tensor, state: Tensor, *, sentence: Tensor) -> Tensor:
        if state.shape[1] < self.size:
            return log_probs
        said = state.unfold(1, self.size, 1)  # [N,t−size+1,size]
        last = state[:, state.shape[1] - self.size + 1 :]
        again = (said[..., :-1] == last[:, None]).all(dim=-1)
        # Places where nothing repeats point one past the vocabulary, which is then cut off.
        banned = torch.where(again, said[..., -1], log_probs.shape[-1])
        wide = torch.nn.functional.pad(log_probs, (0, 1))
        return wide.scatter(1, banned, -torch.inf)[:, :-1]
