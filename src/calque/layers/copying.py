"""Copying words from the source: a gate, and the mixture of generation and copying (See 2017, §2.2).

Letters: B sentences, K beams, N = B·K, S source, T target, V vocabulary.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class CopyGate(nn.Module):
    """The copy gate w·[c; s; x] + b of context c, decoder state s and decoder input x (See 2017, eq. 8).

    The sigmoid of the gate is the probability of generating a word rather than copying one. The gate is returned as a
    logit: in low precision, probabilities near 0 and 1 lose all information and have no gradient.
    """

    def __init__(self, *, context: int, state: int, inputs: int) -> None:
        super().__init__()
        self.dense = nn.Linear(context + state + inputs, 1)

    def forward(self, context: Tensor, state: Tensor, inputs: Tensor) -> Tensor:
        """The gate's logits [N,T], given contexts [N,T,M], decoder states [N,T,D] and embedded inputs [N,T,E]."""
        return self.dense(torch.cat([context, state, inputs], dim=-1)).squeeze(-1)  # type: ignore[no-any-return]


def mixture(log_probs: Tensor, *, gate: Tensor, attention: Tensor, tokens: Tensor) -> Tensor:
    """Log-probabilities [N,T,V+S] of p·P(w) + (1 − p)·(the attention on all occurrences of w) (See 2017, eq. 9).

    p = σ(gate) is the probability of generating. Arguments: log_probs [N,T,V] of generation, gate [N,T], attention
    [N,T,S], which is normalised to sum to 1, and source tokens [B,S]. The out-of-vocabulary words of a source sentence
    (at most S) have the ids from V on; unused ids get −∞.
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
    """Copy probabilities [N,T,size]: the attention [N,T,S] on each word, summed over its positions in tokens [B,S]."""
    rows, steps, source = attention.shape
    index = tokens.repeat_interleave(rows // tokens.shape[0], dim=0)[:, None].expand(rows, steps, source)
    return attention.new_zeros(rows, steps, size).scatter_add(2, index, attention)


def mixture_loss(mixed: Tensor, targets: Tensor, *, smoothing: float, vocabulary: int) -> Tensor:
    """[N,T], the cross-entropy of targets [N,T] under the `mixture` [N,T,V+S], with label smoothing.

    A target with probability 0, such as a word that can only be copied but gets no attention, has a large finite loss.
    """
    finite = mixed.clamp(min=_floor(mixed))
    losses = -finite.gather(-1, targets[..., None]).squeeze(-1)
    return losses if not smoothing else (1 - smoothing) * losses - smoothing * finite[..., :vocabulary].mean(dim=-1)


def _log(values: Tensor) -> Tensor:
    """The logarithm, with a finite value and gradient at zero."""
    return values.clamp(min=torch.finfo(values.dtype).tiny).log()


def _floor(values: Tensor) -> float:
    """The lowest value of `_log`: the logarithm of the smallest positive normal number of the type of `values`."""
    return math.log(torch.finfo(values.dtype).tiny)
