"""R-Drop: two passes with different dropout should agree. Letters: B sentences, T target, M positions, V vocabulary."""

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
from calque.objectives.cross_entropy import TokenLoss, without_padding
from calque.tensors import map_rows
from calque.text import PAD


class RDropConfig(Config):
    """The cross-entropy of two passes, plus the divergence between them (Wu, Liang et al. 2021)."""

    kind: Literal["r-drop"] = "r-drop"
    alpha: float = Field(default=5.0, ge=0)
    """α: the weight of the divergence; 5 in the paper's translation models."""


def duplicated(batch: PairBatch) -> PairBatch:
    """The batch followed by a copy of all its rows."""

    def doubled(values: Tensor) -> Tensor:
        return torch.cat([values, values])

    return PairBatch(
        source=map_rows(doubled, batch.source),
        target_input=doubled(batch.target_input),
        target_output=doubled(batch.target_output),
        target_lengths=doubled(batch.target_lengths),
        weight=2 * batch.weight,
        shared_weight=2 * batch.shared_weight,
        guide=None if batch.guide is None else doubled(batch.guide),
    )


def r_drop_loss(model: Model, output: Output, batch: PairBatch, *, smoothing: float, alpha: float) -> TokenLoss:
    """½ L, summed over target tokens, for the output of a duplicated batch, where L is the paper's loss:

        L = −log P₁(y|x) − log P₂(y|x) + α/2 (KL(P₁‖P₂) + KL(P₂‖P₁))   (§2.1)

    With α = 0, ½ L is the mean cross-entropy of the two passes.
    """
    if isinstance(model.output, FullOutput) and not model.copies:
        return _from_logits(model, output, batch, smoothing=smoothing, alpha=alpha)
    log_probs, targets = _log_probs(model, output, batch)
    vocabulary = model.sizes.target
    words = targets if model.copies else known(targets, size=vocabulary)
    counts = targets != PAD
    losses = mixture_loss(log_probs, words, smoothing=smoothing, vocabulary=vocabulary) * counts
    divergences = divergence(*log_probs.chunk(2)) * counts.chunk(2)[0]
    cross_entropy = losses.sum() / 2
    return TokenLoss(cross_entropy + _extra(output, batch) / 2 + alpha / 2 * divergences.sum(), cross_entropy)


def _from_logits(model: Model, output: Output, batch: PairBatch, *, smoothing: float, alpha: float) -> TokenLoss:
    """`r_drop_loss` for a full softmax, computed in fewer passes over the vocabulary."""
    if batch.target_output.device.type == "cpu":
        hidden, targets = without_padding(output.hidden, batch.target_output)
    else:
        hidden, targets = output.hidden.flatten(0, 1), batch.target_output.flatten()
    targets = targets.chunk(2)[0]
    words = known(targets, size=model.sizes.target)
    terms = agreement(model.logits(hidden), words, counts=targets != PAD, smoothing=smoothing)
    cross_entropy = terms.cross_entropy / 2
    return TokenLoss(cross_entropy + _extra(output, batch) / 2 + alpha / 2 * terms.divergence, cross_entropy)


def divergence(first: Tensor, second: Tensor) -> Tensor:
    """The symmetric divergence […] of two distributions, given their log-probabilities […,V].

    ½ (KL(P₁‖P₂) + KL(P₂‖P₁)) = ½ Σ (P₁ − P₂)(log P₁ − log P₂)
    """
    is_possible = (first > -torch.inf) & (second > -torch.inf)
    ratio = (first - second).masked_fill(~is_possible, 0)
    return 0.5 * ((first.exp() - second.exp()) * ratio).sum(dim=-1)


def _log_probs(model: Model, output: Output, batch: PairBatch) -> tuple[Tensor, Tensor]:
    """The log-probabilities […,V] of all words at each target position, and the reference words […].

    Padded positions are left out on a CPU, unless the model can copy source words; in all other cases they are kept.
    """
    targets = batch.target_output
    if model.copies or targets.device.type != "cpu":
        return model.log_probs(output, Context(None, batch.source.values if model.copies else None)), targets
    hidden, words = without_padding(output.hidden, targets)
    return model.log_probs(output._replace(hidden=hidden), Context(None, None)), words


def _extra(output: Output, batch: PairBatch) -> Tensor:
    """The sum of the decoder's auxiliary losses over all target tokens that are not padding."""
    counts = batch.target_output != PAD
    return sum(((losses * counts).sum() for losses in output.losses.values()), torch.zeros((), device=counts.device))


class Agreement(NamedTuple):
    """The terms of R-Drop, summed over positions."""

    cross_entropy: Tensor  # of both passes
    divergence: Tensor  # ½ (KL(P‖Q) + KL(Q‖P))


def agreement(logits: Tensor, targets: Tensor, *, counts: Tensor, smoothing: float) -> Agreement:
    """The terms of R-Drop, given the logits [2M,V] of both passes, one after the other, and the targets [M].

    `counts` [M] is 0 for padding. The gradients of the terms are computed in closed form:

    cross-entropy of a pass with logits z, p = softmax z and y = (1 − ε)·one-hot + ε/V:    −Σ y log p
        gradient with respect to z                                                          p − y
    divergence   ½ Σ (p − q)(log p − log q)
        gradient with respect to the logits of the first pass  ½ (p (log p − log q − KL(P‖Q)) + p − q)
    """
    return Agreement(*_Agreement.apply(logits, targets, counts.to(logits.dtype), smoothing))  # type: ignore[no-untyped-call]


class _Agreement(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, counts: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        log_probs = logits.log_softmax(dim=-1)
        likelihoods = log_probs.gather(-1, targets.repeat(2)[:, None]).squeeze(-1)
        if smoothing:
            likelihoods = (1 - smoothing) * likelihoods + smoothing * log_probs.mean(dim=-1)
        first, second = log_probs.chunk(2)
        ratio = first - second
        probs = log_probs.exp_()
        product = probs.new_empty(ratio.shape)
        kls = torch.stack([torch.mul(half, ratio, out=product).sum(dim=-1) for half in probs.chunk(2)])
        kls[1].neg_()
        ctx.save_for_backward(probs, ratio, kls, targets, counts)
        ctx.smoothing = smoothing
        return -(likelihoods * counts.repeat(2)).sum(), 0.5 * (kls.sum(dim=0) * counts).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_entropy: Tensor, of_divergence: Tensor) -> tuple[Tensor, None, None, None]:
        probs, ratio, kls, targets, counts = ctx.saved_tensors
        entropy, distance = (counts * of_entropy)[:, None], (0.5 * counts * of_divergence)[:, None]
        uniform = -ctx.smoothing / probs.shape[-1] * entropy
        gradients, factor = torch.empty_like(probs), torch.empty_like(ratio)
        passes = probs.chunk(2)
        for p, q, kl, sign, gradient in zip(passes, passes[::-1], kls, (1, -1), gradients.chunk(2), strict=True):
            torch.addcmul(entropy + distance * (1 - kl[:, None]), ratio, distance, value=sign, out=factor)
            torch.addcmul(uniform, p, factor, out=gradient)
            gradient.addcmul_(q, distance, value=-1)
            columns = targets[:, None]
            gradient.scatter_(-1, columns, gradient.gather(-1, columns) - (1 - ctx.smoothing) * entropy)
        return gradients, None, None, None
