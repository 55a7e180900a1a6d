"""The state of beam search in tensors of fixed shape (see `fixed_beam`).

Letters: B sentences, K beams, N = B·K, F finished hypotheses kept per sentence, M tokens that there is room for.
"""

from typing import Any, NamedTuple

from torch import Tensor

from calque.search.scoring import Scoring, SentenceLengths
from calque.search.step import Limits, Marks


class Batch(NamedTuple):
    """The values that stay the same during the search for a batch; one row per sentence."""

    sentence: Tensor  # [B], index in the initial batch
    limits: Limits
    lengths: SentenceLengths
    context: Any


class Ends(NamedTuple):
    """The best complete hypotheses, best first; −∞ in slots that are still empty."""

    scores: Tensor  # [B,F]
    log_probs: Tensor  # [B,F]
    lengths: Tensor  # [B,F], including the end mark
    slots: Tensor  # [B,F], the slot of the hypothesis before its end mark


class Beams(NamedTuple):
    """The state of beam search in tensors of fixed shape.

    For each step and slot, the token and the slot that it extends are stored; `traced` recovers the hypotheses.
    """

    length: Tensor  # [B], the number of tokens that have been read, the same for all sentences
    live: Tensor  # [B,K], the log-probabilities of hypotheses; −∞ in slots without one
    tokens: Tensor  # [B,K,M], the token that the hypothesis in a slot had at each position when it was there
    parents: Tensor  # [B,K,M], the slot of the hypothesis that it extended
    ends: Ends
    counts: Tensor  # [B], number of hypotheses that have ended so far
    done: Tensor  # [B]
    cut: Tensor  # [B,K], log-probabilities of hypotheses that reached the maximum length; −∞ until then
    last: Tensor  # [N], the tokens to read next
    state: Any


class Plan(NamedTuple):
    """The settings of a search that are the same for all batches."""

    beams: int
    score: Scoring
    nbest: int
    stop_after: int | None
    marks: Marks
