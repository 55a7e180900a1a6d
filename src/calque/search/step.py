"""The interface between search and models: a step function, special tokens and length limits.

Letters: B sentences, K beams, N = B·K hypotheses (sentence-major), V vocabulary, S source.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from calque.tensors import Slots


class StepOutput(NamedTuple):
    """The model's output after reading one token."""

    log_probs: Tensor  # [N,V]
    attention: Tensor | None = None  # [N,S]


Step = Callable[[Tensor, Any, Any], tuple[StepOutput, Any]]
"""A step function: (last tokens [N], state with N rows, context with B rows) → (output, next state).

State and context are trees of tensors."""


class Best(NamedTuple):
    """The most likely next tokens of each hypothesis."""

    log_probs: Tensor  # [N,C], best first
    tokens: Tensor  # [N,C]; of equal log-probabilities, the lower token first
    ends: Tensor  # [N], the log-probabilities of the end mark


@runtime_checkable
class BestStep(Protocol):
    """A step function that can also return the few best tokens, which is all that a plain beam search compares.

    It need not keep a log-probability for every token, and it reads only the remaining hypotheses: row n of tokens and
    state belongs to hypothesis `slots.places[n]` of the batch.
    """

    def __call__(self, tokens: Tensor, state: Any, context: Any, /) -> tuple[StepOutput, Any]: ...

    def best(
        self, tokens: Tensor, state: Any, context: Any, *, slots: Slots | None, count: int, end: int
    ) -> tuple[Best, Any]:
        """The `count` best next tokens after one more token [N] per hypothesis, and the next state."""
        ...


class Marks(NamedTuple):
    """The special tokens that search needs."""

    start: int
    end: int
    never: tuple[int, ...] = ()  # tokens that no hypothesis may contain


class Limits(NamedTuple):
    """Minimum and maximum length of each sentence's hypotheses, including the end mark.

    A hypothesis of maximum − 1 tokens either takes the end mark as its last token or is cut off unfinished. If minimum
    and maximum are equal, it can only take the end mark.
    """

    maximum: Tensor  # [B], at least 2
    minimum: Tensor  # [B]


class Live(NamedTuple):
    """Hypotheses that can still be extended, best first."""

    log_probs: Tensor  # [B,K]
    tokens: Tensor  # [B,K,t]
    covered: Tensor | None = None  # [B,K,S], attention summed over the steps so far, if the score needs it


class Hypothesis(NamedTuple):
    """One result of search."""

    tokens: tuple[int, ...]  # without start and end marks
    score: float  # hypotheses are ranked by it
    log_prob: float  # of all tokens, including the end mark
    cut: bool  # reached the maximum length without an end mark
    missing_phrase: bool = False  # it was cut before it contained all required phrases


NO_ANSWER = Hypothesis((), -math.inf, -math.inf, cut=True)
"""Returned if no hypothesis is left: each reached a point where no token was allowed, or search was given up."""


REMOVED = 8
"""Finished sentences are removed once they are more than 1/REMOVED of the batch: removing them copies all others."""


def is_worth_removing(finished: int, *, of: int) -> bool:
    """Whether enough sentences of a batch are finished to make removing them worth the copy."""
    return finished * REMOVED > of


def clear_step(step: Step) -> Step:
    """The step function without its fast path `best`, so that search calls it once per step with all hypotheses."""

    def plain(tokens: Tensor, state: Any, context: Any) -> tuple[StepOutput, Any]:
        return step(tokens, state, context)

    return plain


def forbid(log_probs: Tensor, *, marks: Marks, length: int, limits: Limits) -> Tensor:
    """The log-probabilities [B,K,V] of token number `length`, with −∞ for tokens that are not allowed there.

    These are the special tokens, the end mark before the minimum length, and all other tokens where only the end mark
    is allowed (see `Limits`).
    """
    maximum, minimum = limits
    allowed = log_probs.clone()
    allowed[..., list(marks.never)] = -torch.inf
    allowed[..., marks.end].masked_fill_((length < minimum)[:, None], -torch.inf)
    last = (length == maximum) & (minimum == maximum)
    if bool(last.any()):
        ends = allowed[..., marks.end].clone()
        allowed.masked_fill_(last[:, None, None], -torch.inf)
        allowed[..., marks.end] = ends
    return allowed


def allowed_best(best: Best, *, marks: Marks, length: int | Tensor, limits: Limits) -> tuple[Tensor, Tensor]:
    """The best tokens' log-probabilities [N,C], with −∞ for those that `forbid` rules out, and the tokens themselves.

    `limits` has one row per hypothesis. Where only the end mark is allowed, it becomes the first of the row's tokens.
    """
    maximum, minimum = limits
    is_forbidden = (best.tokens == marks.end) & (length < minimum)[:, None]
    for token in marks.never:
        is_forbidden = is_forbidden | (best.tokens == token)
    log_probs, tokens = best.log_probs.masked_fill(is_forbidden, -torch.inf), best.tokens
    must_end = (length == maximum) & (minimum == maximum)
    if isinstance(length, Tensor) or bool(must_end.any()):
        log_probs = log_probs.masked_fill(must_end[:, None], -torch.inf)
        log_probs[:, 0] = torch.where(must_end, best.ends, log_probs[:, 0])
        tokens = torch.cat([tokens[:, :1].masked_fill(must_end[:, None], marks.end), tokens[:, 1:]], dim=1)
    return log_probs, tokens
