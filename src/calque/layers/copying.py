"""Words taken from the source: a gate, and the mixture of what is written and what is copied (See 2017, §2.2).

Letters: B sentences, K beams, N = B·K, S source, T target, V vocabulary.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class CopyGate(nn.Module):
    """w·[c; s; x] + b, whose σ is how much the vocabulary counts, by what was found, the state and the input (eq. 8).

    It is given before the σ: near 0 and 1 a probability of few bits says nothing, and nothing flows back through it.
    """

    def __init__(self, *, context: int, state: int, inputs: int) -> None:
        super().__init__()
        self.dense = nn.Linear(context + state + inputs, 1)

    def forward(self, context: Tensor, state: Tensor, inputs: Tensor) -> Tensor:
        """[N,T] from [N,T,M], [N,T,D] and [N,T,E]."""
        return self.dense(torch.cat([context, state, inputs], dim=-1)).squeeze(-1)  # type: ignore[no-any-return]


def mixture(log_probs: Tensor, *, gate: Tensor, attention: Tensor, tokens: Tensor) -> Tensor:
    """[N,T,V+S] log-probabilities: p·P(w) + (1 − p)·(the attention on all places of w), p = σ(gate) (eq. 9).

    From log_probs [N,T,V], gate [N,T], attention [N,T,S] and tokens [B,S]; attention that does not add up to 1 is
    made to. Words outside the vocabulary are numbered from V on within their sentence, which has at most S of them;
    −∞ where a number has no word.
    """
    vocabulary, floor = log_probs.shape[-1], _floor(log_probs)
    gate, attention = gate.to(log_probs.dtype), attention.to(log_probs.dtype)
    attention = attention / attention.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(attention.dtype).tiny)
    wide = F.pad(log_probs, (0, tokens.shape[1]), value=floor)
    copied = copy_probs(attention, tokens, size=wide.shape[-1])
    written, taken = F.logsigmoid(gate)[..., None], F.logsigmoid(-gate)[..., None]
    mixed = torch.logaddexp(wide + written, _log(copied) + taken)
    is_word = (torch.arange(wide.shape[-1], device=copied.device) < vocabulary) | (copied > 0)
    return mixed.masked_fill(~is_word, -torch.inf)


def copy_probs(attention: Tensor, tokens: Tensor, *, size: int) -> Tensor:
    """[N,T,size], how much each word is looked at: the sum of attention [N,T,S] over its places in tokens [B,S]."""
    rows, steps, source = attention.shape
    places = tokens.repeat_interleave(rows // tokens.shape[0], dim=0)[:, None].expand(rows, steps, source)
    return attention.new_zeros(rows, steps, size).scatter_add(2, places, attention)


def mixture_loss(mixed: Tensor, targets: Tensor, *, smoothing: float, vocabulary: int) -> Tensor:
    """[N,T], the cross-entropy of targets [N,T] under mixed [N,T,V+S], smoothed over the vocabulary.

    A word that could only be copied from where attention did not look costs as much as numbers can say.
    """
    finite = mixed.clamp(min=_floor(mixed))
    losses = -finite.gather(-1, targets[..., None]).squeeze(-1)
    return losses if not smoothing else (1 - smoothing) * losses - smoothing * finite[..., :vocabulary].mean(dim=-1)


def _log(values: Tensor) -> Tensor:
    """The logarithm, finite and with a finite gradient at zero."""
    return values.clamp(min=torch.finfo(values.dtype).tiny).log()


def _floor(values: Tensor) -> float:
    """The logarithm of the smallest number."""
    return math.log(torch.finfo(values.dtype).tiny)
