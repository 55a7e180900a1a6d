"""Translation: the loss of a batch of sentence pairs. Letters: B sentences, T target, D width, M counted positions."""

import torch
from torch import Tensor

from calque.data.batch import Batch, collate
from calque.data.plan import BatchConfig, Plan
from calque.data.store import Store
from calque.models.model import Model
from calque.text import PAD


def translation_loss(model: Model, batch: Batch, *, smoothing: float) -> Tensor:
    """The cross-entropy of all target tokens of a batch, summed."""
    hidden, targets = counted(model(batch.source, batch.target_input).hidden, batch.target_output)
    return model.output.loss(hidden, targets, smoothing=smoothing, ignored=PAD).sum()


@torch.inference_mode()
def mean_loss(model: Model, store: Store, *, batch: BatchConfig) -> float:
    """The cross-entropy of every target token of a store, in nats a token, without smoothing or dropout."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    total, tokens = torch.zeros((), device=device), 0
    plan = Plan(store, config=batch.model_copy(update={"shapes": "exact"}), seed=0)
    for planned in plan.batches(0):
        pairs = collate(store, planned=planned)
        total += translation_loss(model, pairs.to(device), smoothing=0.0)
        tokens += pairs.tokens
    model.train(was_training)
    return float(total) / tokens


def counted(hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """[M,D] and [M]: on a CPU the positions that count, on a device all of them.

    Padding is left out before the vocabulary layer, a quarter of a small model's work; a device would have to wait
    to learn how many positions are left, and gives ignored ones a loss of zero instead.
    """
    hidden, targets = hidden.flatten(0, 1), targets.flatten()
    if hidden.device.type != "cpu":
        return hidden, targets
    places = (targets != PAD).nonzero().squeeze(1)
    return hidden.index_select(0, places), targets.index_select(0, places)
