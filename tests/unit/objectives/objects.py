"""Shared by the tests of objectives: a batch of pairs, and tiny models of every family in float64."""

import numpy as np
import torch
from tests.conftest import FAMILIES

from calque.config import override
from calque.data.batching import Planned
from calque.data.buckets import Size
from calque.data.pair_batch import PairBatch, collate_pairs
from calque.data.store import store_of_pairs
from calque.models.model import Model, ModelConfig, Sizes
from calque.objectives.cross_entropy import TokenLoss, loss_of

PAIRS = [([4, 5, 6], [7, 4]), ([5], [6, 6, 6, 4, 5]), ([7, 7, 4, 4, 5], [4]), ([6, 4], [5, 5, 7]), ([4], [])]
SHAPES = [Size(5, (6, 6)), Size(7, (9, 8))]  # exact, and with padded rows and columns
SIZE = 8


def make_batch(shape: Size = SHAPES[0], pairs=PAIRS) -> PairBatch:
    return collate_pairs(store_of_pairs(pairs), planned=Planned(np.arange(len(pairs)), shape))


def make_model(family: str, *overrides: str, seed: int = 1, size: int = SIZE) -> Model:
    """In evaluation mode, with weights large enough that the inputs matter."""
    config = ModelConfig.model_validate(override(FAMILIES[family], overrides))
    model = Model(config, sizes=Sizes(size, size, joint=True)).double().eval()
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter) * 0.5)
    return model


def translation_loss(model: Model, batch: PairBatch, *, smoothing: float) -> TokenLoss:
    """The loss of a batch with teacher forcing."""
    return loss_of(model, model(batch.source, batch.target_input), batch, smoothing=smoothing)


def gradients(model: Model, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    """The gradient of every parameter that has one."""
    named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    slopes = torch.autograd.grad(loss, list(named.values()), allow_unused=True, retain_graph=True)
    return {name: slope for name, slope in zip(named, slopes, strict=True) if slope is not None}
