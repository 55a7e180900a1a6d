"""The loss of a batch against the equation, token by token."""

import math

import numpy as np
import pytest
import torch
from tests.conftest import FAMILIES
from tests.unit.objectives.objects import make_batch, translation_loss
from tests.unit.objectives.objects import make_model as make_any

from calque.data.batching import BatchConfig, Planned
from calque.data.buckets import Size
from calque.data.pair_batch import PairBatch, collate_pairs
from calque.data.store import Store, store_of_pairs
from calque.engine import pad_source
from calque.models.model import Model, ModelConfig, Sizes
from calque.objectives.cross_entropy import loss_of, mean_loss, without_padding
from calque.text import BOS, EOS, PAD

PAIRS = [([4, 5, 6], [7, 4]), ([5], [6, 6, 6, 4, 5]), ([7, 7, 4, 4, 5], [4]), ([6, 4], [5, 5, 7]), ([4], [])]


def make_model(family: str = "luong") -> Model:
    torch.manual_seed(1)
    return Model(ModelConfig.model_validate(FAMILIES[family]), sizes=Sizes(8, 8, joint=True)).double().eval()


def batch_of(store: Store, shape: Size) -> PairBatch:
    return collate_pairs(store, planned=Planned(np.arange(len(store)), shape))


def token_losses(model: Model, source: list[int], target: list[int], *, smoothing: float) -> list[float]:
    """One sentence, token by token: (1 - e)·(-log p of the target) + e·(mean of -log p over the vocabulary)."""
    context = model.decoder.prepare(model.encode(pad_source([source])))
    state, losses = model.decoder.start(context), []
    for token, word in zip([BOS, *target], [*target, EOS], strict=True):
        output, state = model.decoder(torch.tensor([[token]]), state, context)
        log_probs = model.output.log_probs(output.hidden[0, -1])
        losses.append(float(-(1 - smoothing) * log_probs[word] - smoothing * log_probs.mean()))
    return losses


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@torch.no_grad()
def test_the_loss_is_the_sum_over_all_target_tokens(family: str, smoothing: float) -> None:
    model, store = make_model(family), store_of_pairs(PAIRS)
    expected = math.fsum(loss for pair in PAIRS for loss in token_losses(model, *pair, smoothing=smoothing))
    for shape in (Size(5, (6, 6)), Size(7, (9, 8))):  # exact, and with padded rows and columns
        loss = translation_loss(model, batch_of(store, shape), smoothing=smoothing).objective
        assert float(loss) == pytest.approx(expected, abs=1e-9)


@torch.no_grad()
def test_the_mean_loss_is_per_token_without_smoothing_and_dropout() -> None:
    model, store = make_model(), store_of_pairs(PAIRS)
    losses = [loss for pair in PAIRS for loss in token_losses(model, *pair, smoothing=0.0)]
    expected = math.fsum(losses) / len(losses)
    for config in (BatchConfig(), BatchConfig(tokens=2), BatchConfig(tokens=40), BatchConfig(shapes="static")):
        model.train()
        assert mean_loss(model, store, batch=config) == pytest.approx(expected, rel=1e-6)
        assert model.training  # its mode is restored
    model.eval()
    mean_loss(model, store, batch=BatchConfig())
    assert not model.training


def test_an_interrupted_loss_restores_the_mode_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model().train()

    def out_of_memory(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(model, "encode", out_of_memory)
    with pytest.raises(MemoryError):
        mean_loss(model, store_of_pairs(PAIRS), batch=BatchConfig())
    assert model.training


def test_padding_is_removed() -> None:
    hidden = torch.arange(12.0).view(2, 3, 2)
    targets = torch.tensor([[5, PAD, PAD], [6, EOS, PAD]])
    states, words = without_padding(hidden, targets)
    assert states.tolist() == [[0.0, 1.0], [6.0, 7.0], [8.0, 9.0]]
    assert words.tolist() == [5, 6, EOS]


def test_rewards_are_those_of_sentences_that_sample() -> None:
    """Hard attention, with some sentences that use the mean instead."""
    model = make_any("luong", "decoder.attention.choice=hard", "decoder.attention.soft_share=0.5").train()
    batch = make_batch()
    torch.manual_seed(0)
    output = model(batch.source, batch.target_input)
    counts = batch.target_output != PAD
    sampled = counts & (output.chosen != 0)
    assert 0 < int(sampled.sum()) < int(counts.sum())
    losses = model.losses(output, batch.source.values, batch.target_output, smoothing=0.0, ignored=PAD)
    costs = losses + sum(output.losses.values(), torch.zeros(()))
    rewards = loss_of(model, output, batch, smoothing=0.0).rewards
    assert rewards is not None
    assert rewards.tolist() == pytest.approx([-costs[sampled].sum().item(), int(sampled.sum())], abs=1e-9)
