"""Cross-entropy of a batch of sentence pairs. Letters: B sentences, T target, D width, M counted positions."""

from typing import NamedTuple

import torch
from torch import Tensor

from calque.data.batching import BatchConfig, Bucketed
from calque.data.pair_batch import PairBatch, collate_pairs, pair_widths
from calque.data.store import Store
from calque.layers.reinforce import reinforced
from calque.models.interfaces import Output
from calque.models.model import Model
from calque.tensors import exact
from calque.text import PAD


class TokenLoss(NamedTuple):
    """Of a batch, summed over its target tokens."""

    objective: Tensor  # what training minimises
    cross_entropy: Tensor  # what it is told by: smoothed as in training, without what else costs
    rewards: Tensor | None = None  # [2], of what was drawn: their sum, and how many; a baseline follows their mean


def loss_of(model: Model, output: Output, batch: PairBatch, *, smoothing: float) -> TokenLoss:
    """The cross-entropy of all target tokens of a batch, and what else costs.

    `output` is what the decoder has made of the batch's target inputs, or of others in their place.
    """
    counts = batch.target_output != PAD
    extra = sum((each * counts for each in output.losses.values()), torch.zeros((), device=counts.device))
    if output.chosen is not None:
        return _drawn_loss(model, output, batch, extra=extra, smoothing=smoothing)
    total = _cross_entropy(model, output, batch, smoothing=smoothing)
    return TokenLoss(total + extra.sum() if output.losses else total, total)


def _cross_entropy(model: Model, output: Output, batch: PairBatch, *, smoothing: float) -> Tensor:
    if model.copies or batch.target_output.device.type != "cpu":
        losses = model.losses(output, batch.source.values, batch.target_output, smoothing=smoothing, ignored=PAD)
        return losses.sum()
    hidden, targets = counted(output.hidden, batch.target_output)
    flat = output._replace(hidden=hidden[None])
    return model.losses(flat, batch.source.values, targets[None], smoothing=smoothing, ignored=PAD).sum()


def _drawn_loss(model: Model, output: Output, batch: PairBatch, *, extra: Tensor, smoothing: float) -> TokenLoss:
    """With hard attention: the loss of what was drawn, and what teaches it to draw better."""
    draws = model.decoder.draws
    assert model.baseline is not None and draws is not None and output.chosen is not None
    counts = batch.target_output != PAD
    losses = model.losses(output, batch.source.values, batch.target_output, smoothing=smoothing, ignored=PAD)
    costs = losses + extra
    taught = reinforced(output.chosen, losses=costs, counts=counts, baseline=model.baseline.value, draws=draws)
    drawn = counts & (output.chosen.detach() != 0)  # sentences that take the mean draw nothing
    rewards = torch.stack([-(costs.detach() * drawn).sum(), drawn.sum().to(costs.dtype)])
    return TokenLoss(costs.sum() + taught, losses.sum(), rewards)


@torch.inference_mode()
def mean_loss(model: Model, store: Store, *, batch: BatchConfig) -> float:
    """The cross-entropy of every target token of a store, in nats a token, without smoothing or dropout."""
    device = next(model.parameters()).device
    total, tokens = exact(torch.zeros((), device=device)), 0  # the same however they are put into batches
    order = Bucketed(pair_widths(store), spans=store.spans, config=batch.model_copy(update={"shapes": "exact"}), seed=0)
    with model.evaluating():
        for planned in order.batches(0):
            pairs = collate_pairs(store, planned=planned)
            placed = pairs.to(device)
            total += _cross_entropy(model, model(placed.source, placed.target_input), placed, smoothing=0.0)
            tokens += pairs.weight
    return float(total) / tokens


def counted(hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """[M,D] and [M], the positions that count: padding is left out before the vocabulary layer.

    That is a quarter of a small model's work on a CPU; a device would have to wait to learn how many are left.
    """
    places = (targets.flatten() != PAD).nonzero().squeeze(1)
    return hidden.flatten(0, 1).index_select(0, places), targets.flatten().index_select(0, places)
