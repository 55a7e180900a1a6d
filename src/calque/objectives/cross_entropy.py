"""Cross-entropy of a batch of sentence pairs. Letters: B sentences, T target, D width, M positions without padding."""

from collections.abc import Callable
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
    """The loss of a batch, summed over its target tokens."""

    objective: Tensor  # what training minimises
    cross_entropy: Tensor  # what training reports: label-smoothed, without additional terms
    rewards: Tensor | None = None  # [2], the sum and number of rewards of sampled positions, for a baseline


def loss_of(model: Model, output: Output, batch: PairBatch, *, smoothing: float) -> TokenLoss:
    """The loss of a batch: the cross-entropy of all target tokens, plus the additional losses of the decoder.

    `output` is the decoder's output for the batch's target inputs, or for inputs that replace some of them.
    """
    counts = batch.target_output != PAD
    extra = sum((losses * counts for losses in output.losses.values()), torch.zeros((), device=counts.device))
    if output.chosen is not None:
        return _hard_attention_loss(model, output, batch, extra=extra, smoothing=smoothing)
    total = _cross_entropy(model, output, batch, smoothing=smoothing)
    return TokenLoss(total + extra.sum() if output.losses else total, total)


def _cross_entropy(model: Model, output: Output, batch: PairBatch, *, smoothing: float) -> Tensor:
    if model.copies or batch.target_output.device.type != "cpu":
        return model.total_loss(output, batch.source.values, batch.target_output, smoothing=smoothing, ignored=PAD)
    hidden, targets = without_padding(output.hidden, batch.target_output)
    flat = output._replace(hidden=hidden[None])
    return model.total_loss(flat, batch.source.values, targets[None], smoothing=smoothing, ignored=PAD)


def _hard_attention_loss(
    model: Model, output: Output, batch: PairBatch, *, extra: Tensor, smoothing: float
) -> TokenLoss:
    """The loss with hard attention: cross-entropy, `extra` losses, and a REINFORCE term for the choice of positions."""
    draws = model.decoder.draws
    assert model.baseline is not None and draws is not None and output.chosen is not None
    counts = batch.target_output != PAD
    losses = model.losses(output, batch.source.values, batch.target_output, smoothing=smoothing, ignored=PAD)
    costs = losses + extra
    policy_loss = reinforced(output.chosen, losses=costs, counts=counts, baseline=model.baseline.value, draws=draws)
    sampled = counts & (output.chosen.detach() != 0)  # sentences with soft attention sample nothing
    rewards = torch.stack([-(costs.detach() * sampled).sum(), sampled.sum().to(costs.dtype)])
    return TokenLoss(costs.sum() + policy_loss, losses.sum(), rewards)


@torch.inference_mode()
def mean_loss(model: Model, store: Store, *, batch: BatchConfig, poll: Callable[[], None] | None = None) -> float:
    """The cross-entropy of a store's target tokens, in nats per token, without smoothing or dropout.

    `poll` is called before every batch; an exception that it raises ends the computation.
    """
    device = next(model.parameters()).device
    total, tokens = exact(torch.zeros((), device=device)), 0  # precise enough not to depend on the batching
    order = Bucketed(pair_widths(store), spans=store.spans, config=batch.model_copy(update={"shapes": "exact"}), seed=0)
    with model.evaluating():
        for planned in order.batches(0):
            if poll is not None:
                poll()
            pairs = collate_pairs(store, planned=planned)
            placed = pairs.to(device)
            total += _cross_entropy(model, model(placed.source, placed.target_input), placed, smoothing=0.0)
            tokens += pairs.weight
    return float(total) / tokens


def without_padding(hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The hidden vectors [M,D] and targets [M] at positions that are not padding, for the output layer.

    This saves a quarter of a small model's computation on a CPU. Training on a GPU does without it, as the host would
    have to wait for the number M.
    """
    positions = (targets.flatten() != PAD).nonzero().squeeze(1)
    return hidden.flatten(0, 1).index_select(0, positions), targets.flatten().index_select(0, positions)
