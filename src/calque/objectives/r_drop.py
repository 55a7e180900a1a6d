"""R-Drop: two readings of a batch with other units dropped should say the same. Letters: B sentences, T target."""

from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.autograd.function import once_differentiable

from calque.config import Config
from calque.data.pair_batch import PairBatch
from calque.layers.copying import mixture_loss
from calque.layers.embedding import known
from calque.layers.output import FullOutput
from calque.models.interfaces import Output
from calque.models.model import Context, Model
from calque.objectives.cross_entropy import TokenLoss, counted
from calque.tensors import Padded
from calque.text import PAD


class RDropConfig(Config):
    """Cross-entropy of two readings, and how far apart they are (Wu, Liang et al. 2021)."""

    kind: Literal["r-drop"] = "r-drop"
    alpha: float = Field(default=5.0, ge=0)
    """α: how much the distance of the two counts; 5 in the paper's translation models."""


def twice(batch: PairBatch) -> PairBatch:
    """The batch with all its rows a second time behind them."""

    def doubled(values: Tensor) -> Tensor:
        return torch.cat([values, values])

    return PairBatch(
        source=Padded(doubled(batch.source.values), doubled(batch.source.lengths)),
        target_input=doubled(batch.target_input),
        target_output=doubled(batch.target_output),
        target_lengths=doubled(batch.target_lengths),
        weight=2 * batch.weight,
        shared_weight=2 * batch.shared_weight,
        guide=None if batch.guide is None else doubled(batch.guide),
    )


def r_drop_loss(model: Model, output: Output, batch: PairBatch, *, smoothing: float, alpha: float) -> TokenLoss:
    """Of what was made of a batch and of its copy behind it, half of the paper's

        L = −log P₁(y|x) − log P₂(y|x) + α/2 (KL(P₁‖P₂) + KL(P₂‖P₁))   (§2.1)

    summed over target tokens: with α = 0 it is the mean cross-entropy of the two.
    """
    if isinstance(model.output, FullOutput) and not model.copies:
        return _from_logits(model, output, batch, smoothing=smoothing, alpha=alpha)
    log_probs, targets = _log_probs(model, output, batch)
    vocabulary = model.sizes.target
    said = targets if model.copies else known(targets, size=vocabulary)
    counts = targets != PAD
    losses = mixture_loss(log_probs, said, smoothing=smoothing, vocabulary=vocabulary) * counts
    apart = divergence(*log_probs.chunk(2)) * counts.chunk(2)[0]
    cross_entropy = losses.sum() / 2
    return TokenLoss(cross_entropy + _extra(output, batch) / 2 + alpha / 2 * apart.sum(), cross_entropy)


def _from_logits(model: Model, output: Output, batch: PairBatch, *, smoothing: float, alpha: float) -> TokenLoss:
    """The same of a full softmax, in fewer passes over the vocabulary."""
    hidden, targets = output.hidden.flatten(0, 1), batch.target_output.flatten()
    if targets.device.type == "cpu":
        hidden, targets = counted(output.hidden, batch.target_output)
    targets = targets.chunk(2)[0]
    said = known(targets, size=model.sizes.target)
    found = agreement(model.logits(hidden), said, counts=targets != PAD, smoothing=smoothing)
    cross_entropy = found.cross_entropy / 2
    return TokenLoss(cross_entropy + _extra(output, batch) / 2 + alpha / 2 * found.apart, cross_entropy)


def divergence(one: Tensor, other: Tensor) -> Tensor:
    """[…], ½ (KL(P₁‖P₂) + KL(P₂‖P₁)) = ½ Σ (P₁ − P₂)(log P₁ − log P₂) of log-probabilities […,V]."""
    is_possible = (one > -torch.inf) & (other > -torch.inf)
    apart = (one - other).masked_fill(~is_possible, 0)
    return 0.5 * ((one.exp() - other.exp()) * apart).sum(dim=-1)


def _log_probs(model: Model, output: Output, batch: PairBatch) -> tuple[Tensor, Tensor]:
    """Log-probabilities […,V] and the targets […]; where that is cheap to know, of the places that count alone."""
    targets = batch.target_output
    if model.copies or targets.device.type != "cpu":
        return model.log_probs(output, Context(None, batch.source.values if model.copies else None)), targets
    hidden, said = counted(output.hidden, targets)
    return model.log_probs(output._replace(hidden=hidden), Context(None, None)), said


def _extra(output: Output, batch: PairBatch) -> Tensor:
    """What else costs, where it counts."""
    counts = batch.target_output != PAD
    return sum(((each * counts).sum() for each in output.losses.values()), torch.zeros((), device=counts.device))


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
