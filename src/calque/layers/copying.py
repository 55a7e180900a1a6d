"""Copying words from the source: a gate, and the mixture of generation and copying (See 2017, §2.2).

Letters: B sentences, K beams, N = B·K, S source, T target, V vocabulary.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class CopyGate(nn.Module):
    """w·[c; s; x] + b from context, state and input; its σ is the probability of generating a word (eq. 8).

    It returns the logit: in low precision, probabilities near 0 and 1 lose all information and have no gradient.
    """

    def __init__(self, *, context: int, state: int, inputs: int) -> None:
        super().__init__()
        self.dense = nn.Linear(context + state + inputs, 1)

    def forward(self, context: Tensor, state: Tensor, inputs: Tensor) -> Tensor:
        """[N,T] from [N,T,M], [N,T,D] and [N,T,E]."""
        return self.dense(torch.cat([context, state, inputs], dim=-1)).squeeze(-1)  # type: ignore[no-any-return]


def mixture(log_probs: Tensor, *, gate: Tensor, attention: Tensor, tokens: Tensor) -> Tensor:
    """[N,T,V+S] log-probabilities: p·P(w) + (1 − p)·(the attention on all occurrences of w), p = σ(gate) (eq. 9).

    From log_probs [N,T,V], gate [N,T], attention [N,T,S] and tokens [B,S]; attention is normalised to sum to 1. The
    out-of-vocabulary words of a sentence, at most S, are numbered from V on; unused numbers have −∞.
    """
    vocabulary, floor = log_probs.shape[-1], _floor(log_probs)
    gate, attention = gate.to(log_probs.dtype), attention.to(log_probs.dtype)
    attention = attention / attention.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(attention.dtype).tiny)
    padded = F.pad(log_probs, (0, tokens.shape[1]), value=floor)
    copied = copy_probs(attention, tokens, size=padded.shape[-1])
    log_generate, log_copy = F.logsigmoid(gate)[..., None], F.logsigmoid(-gate)[..., None]
    mixed = torch.logaddexp(padded + log_generate, _log(copied) + log_copy)
    is_word = (torch.arange(padded.shape[-1], device=copied.device) < vocabulary) | (copied > 0)
    return mixed.masked_fill(~is_word, -torch.inf)


def copy_probs(attention: Tensor, tokens: Tensor, *, size: int) -> Tensor:
    """[N,T,size], the attention [N,T,S] on each word, summed over its occurrences in tokens [B,S]."""
    rows, steps, source = attention.shape
    index = tokens.repeat_interleave(rows // tokens.shape[0], dim=0)[:, None].expand(rows, steps, source)
    return attention.new_zeros(rows, steps, size).scatter_add(2, index, attention)


def mixture_loss(mixed: Tensor, targets: Tensor, *, smoothing: float, vocabulary: int) -> Tensor:
    """[N,T], the cross-entropy of targets [N,T] under mixed [N,T,V+S], smoothed over the vocabulary.

    A word that could only be copied from positions without attention gets the largest finite loss.
    """
    finite = mixed.clamp(min=_floor(mixed))
    losses = -finite.gather(-1, targets[..., None]).squeeze(-1)
    return losses if not smoothing else (1 - smoothing) * losses - smoothing * finite[..., :vocabulary].mean(dim=-1)


def _log(values: Tensor) -> Tensor:
    """The logarithm, with a finite value and gradient at zero."""
    return values.clamp(min=torch.finfo(values.dtype).tiny).log()


def _floor(values: Tensor) -> float:
    """The logarithm of the smallest positive number."""
    return math.log(torch.finfo(values.dtype).tiny)
