"""Words taken from the source: a gate, and the mixture of what is written and what is copied (See 2017, §2.2).

Letters: B sentences, K beams, N = B·K, S source, T target, V vocabulary, X unknown words a sentence has at most.
"""

import torch
from torch import Tensor, nn


class CopyGate(nn.Module):
    """p = σ(w·[c; s; x] + b): how much the vocabulary counts, given what was found, the state and the input (eq. 8)."""

    def __init__(self, *, context: int, state: int, inputs: int) -> None:
        super().__init__()
        self.dense = nn.Linear(context + state + inputs, 1)

    def forward(self, context: Tensor, state: Tensor, inputs: Tensor) -> Tensor:
        """[N,T] from [N,T,M], [N,T,D] and [N,T,E]."""
        return self.dense(torch.cat([context, state, inputs], dim=-1)).squeeze(-1).sigmoid()  # type: ignore[no-any-return]


def copy_probs(attention: Tensor, tokens: Tensor, *, size: int) -> Tensor:
    """[N,T,size], how much each word is looked at: the sum of attention [N,T,S] over its places in tokens [B,S]."""
    rows, steps, source = attention.shape
    places = tokens.repeat_interleave(rows // tokens.shape[0], dim=0)[:, None].expand(rows, steps, source)
    return attention.new_zeros(rows, steps, size).scatter_add(2, places, attention)


def mixture(log_probs: Tensor, *, gate: Tensor, attention: Tensor, tokens: Tensor, unknown: int) -> Tensor:
    """[N,T,V+X] log-probabilities: p·P(w) + (1 − p)·Σ a over the places of w (eq. 9).

    From log_probs [N,T,V], gate [N,T], attention [N,T,S] and tokens [B,S], which are V and more for words outside the
    vocabulary, numbered within their sentence; X is `unknown`. −∞ where a word is in neither.
    """
    wide = torch.nn.functional.pad(log_probs, (0, unknown), value=-torch.inf)
    copied = copy_probs(attention, tokens, size=wide.shape[-1])
    written = wide + _log(gate)[..., None]
    seen = torch.where(copied > 0, _log(copied) + _log(1 - gate)[..., None], -torch.inf)
    return torch.where(copied > 0, torch.logaddexp(written, seen), written)


def _log(values: Tensor) -> Tensor:
    """The logarithm, finite and with a finite gradient at zero."""
    return values.clamp(min=torch.finfo(values.dtype).tiny).log()
