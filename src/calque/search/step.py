"""What search knows of a model: a step, the special tokens, and how long a hypothesis may get.

Letters: B sentences, K beams, N = B·K hypotheses (sentence-major), V vocabulary, S source.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class StepOutput(NamedTuple):
    """What one more token gives."""

    log_probs: Tensor  # [N,V]
    attention: Tensor | None = None  # [N,S]


Step = Callable[[Tensor, Any, Any], tuple[StepOutput, Any]]
"""(tokens [N], state with N rows, context with B rows) → (output, state). State and context are trees of tensors."""


class Marks(NamedTuple):
    """The tokens with a meaning to search."""

    start: int
    end: int
    never: tuple[int, ...] = ()  # tokens no hypothesis may hold


class Limits(NamedTuple):
    """How long each sentence's hypotheses may be, the end mark counted.

    A hypothesis of maximum − 1 tokens may still end; what does not is closed there, cut. Where minimum and maximum are
    the same, there is one place to end, and nothing else may come there.
    """

    maximum: Tensor  # [B], at least 2
    minimum: Tensor  # [B]


class Hypothesis(NamedTuple):
    """One answer of search."""

    tokens: tuple[int, ...]  # without the marks
    score: float  # what hypotheses are ranked by
    log_prob: float  # of all tokens, the end mark's included
    cut: bool  # reached the maximum length before its end
    missing_phrase: bool = False  # and a phrase that it had to say is missing


NO_ANSWER = Hypothesis((), -math.inf, -math.inf, cut=True)
"""Where every hypothesis came to where no token may follow: the rules contradict each other."""


def forbid(log_probs: Tensor, *, marks: Marks, length: int, limits: Limits) -> Tensor:
    """`log_probs` [B,K,V] of token number `length`, −∞ where a token may not stand: marks, ends that come early.

    And words where only the end may come, see `Limits`.
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
