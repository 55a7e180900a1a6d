"""What search knows of a model: a step, the special tokens, and how long a hypothesis may get.

Letters: B sentences, K beams, N = B·K hypotheses (sentence-major), V vocabulary, S source.
"""

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
    """How long each sentence's hypotheses may be, the end mark counted."""

    maximum: Tensor  # [B], at least 1
    minimum: Tensor  # [B]


class Hypothesis(NamedTuple):
    """One answer of search."""

    tokens: tuple[int, ...]  # without the marks
    score: float  # what hypotheses are ranked by
    log_prob: float  # of all tokens, the end mark's included
    cut: bool  # reached the maximum length before its end


def forbid(log_probs: Tensor, *, marks: Marks, length: int, minimum: Tensor) -> Tensor:
    """`log_probs` [B,K,V] of token number `length`, −∞ where a token may not stand: marks, ends that come early."""
    allowed = log_probs.clone()
    allowed[..., list(marks.never)] = -torch.inf
    allowed[..., marks.end].masked_fill_((length < minimum)[:, None], -torch.inf)
    return allowed
