"""The output layer: log-probabilities and the loss, by their formulas."""

import math

import pytest
import torch
from tests.laws.models import loud

from calque.layers.output import OutputLayer

VOCABULARY, WIDTH, POSITIONS = 7, 5, 4


def layer_and_hidden() -> tuple[OutputLayer, torch.Tensor]:
    layer = loud(OutputLayer(VOCABULARY, width=WIDTH))
    return layer, torch.randn(POSITIONS, WIDTH, dtype=torch.float64)


@torch.no_grad()
def test_log_probs_are_the_log_of_the_softmax() -> None:
    layer, hidden = layer_and_hidden()
    for vector, found in zip(hidden, layer.log_probs(hidden), strict=True):
        logits = [float(layer.weight[word] @ vector + layer.bias[word]) for word in range(VOCABULARY)]
        total = sum(map(math.exp, logits))
        assert found.tolist() == pytest.approx([math.log(math.exp(logit) / total) for logit in logits], abs=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@torch.no_grad()
def test_loss_is_the_cross_entropy_of_the_smoothed_target(smoothing: float) -> None:
    """−Σ q(w) log p(w), q = (1 − ε)·one-hot + ε/V."""
    layer, hidden = layer_and_hidden()
    targets = torch.tensor([0, VOCABULARY - 1, 3, 3])
    losses = layer.loss(hidden, targets, smoothing=smoothing)
    for target, log_probs, loss in zip(targets.tolist(), layer.log_probs(hidden), losses, strict=True):
        q = [smoothing / VOCABULARY + (1 - smoothing) * (word == target) for word in range(VOCABULARY)]
        expected = -sum(share * log_prob for share, log_prob in zip(q, log_probs.tolist(), strict=True))
        assert loss.item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_half_precision_is_normalised_in_single(dtype: torch.dtype) -> None:
    layer, hidden = layer_and_hidden()
    layer, hidden = layer.to(dtype), hidden.to(dtype)
    log_probs = layer.log_probs(hidden)
    assert log_probs.dtype == torch.float32
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(POSITIONS), rtol=0, atol=1e-6)
    assert layer.loss(hidden, torch.zeros(POSITIONS, dtype=torch.long), smoothing=0.1).dtype == torch.float32
