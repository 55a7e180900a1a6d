"""How far two readings are from the target and from each other, straight from their logits.

Said in log-probabilities this takes some ninety passes over [M,V] numbers, forwards and backwards; with the slopes
written out it takes half as many, and keeps no more than the two readings' probabilities and their ratio between them.
Letters: M positions, V vocabulary.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Agreement(NamedTuple):
    """Summed over the positions that count."""

    cross_entropy: Tensor  # of both readings
    apart: Tensor  # ½ (KL(P‖Q) + KL(Q‖P))


def agreement(logits: Tensor, targets: Tensor, *, counts: Tensor, smoothing: float) -> Agreement:
    """Of two readings, one behind the other in logits [2M,V], with targets [M]; `counts` [M] says which positions do.

    cross-entropy of a reading z, p = softmax z, with y = (1 − ε)·one-hot + ε/V:    −Σ y log p
        its slope                                                                    p − y
    apart   ½ Σ (p − q)(log p − log q)
        its slope by the first reading                  ½ (p (log p − log q − KL(P‖Q)) + p − q)
    """
    return Agreement(*_Agreement.apply(logits, targets, counts.to(logits.dtype), smoothing))  # type: ignore[no-untyped-call]


class _Agreement(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, counts: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        log_probs = logits.log_softmax(dim=-1)
        said = log_probs.gather(-1, targets.repeat(2)[:, None]).squeeze(-1)
        if smoothing:
            said = (1 - smoothing) * said + smoothing * log_probs.mean(dim=-1)
        one, other = log_probs.chunk(2)
        ratio = one - other
        probs = log_probs.exp_()
        product = probs.new_empty(ratio.shape)
        kls = torch.stack([torch.mul(each, ratio, out=product).sum(dim=-1) for each in probs.chunk(2)])
        kls[1].neg_()
        ctx.save_for_backward(probs, ratio, kls, targets, counts)
        ctx.smoothing = smoothing
        return -(said * counts.repeat(2)).sum(), 0.5 * (kls.sum(dim=0) * counts).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_entropy: Tensor, of_apart: Tensor) -> tuple[Tensor, None, None, None]:
        probs, ratio, kls, targets, counts = ctx.saved_tensors
        true, distance = (counts * of_entropy)[:, None], (0.5 * counts * of_apart)[:, None]
        even = -ctx.smoothing / probs.shape[-1] * true
        slopes, steepness = torch.empty_like(probs), torch.empty_like(ratio)
        readings = probs.chunk(2)
        for own, other, kl, sign, slope in zip(readings, readings[::-1], kls, (1, -1), slopes.chunk(2), strict=True):
            torch.addcmul(true + distance * (1 - kl[:, None]), ratio, distance, value=sign, out=steepness)
            torch.addcmul(even, own, steepness, out=slope)
            slope.addcmul_(other, distance, value=-1)
            places = targets[:, None]
            slope.scatter_(-1, places, slope.gather(-1, places) - (1 - ctx.smoothing) * true)
        return slopes, None, None, None
