"""Gradients of every model of the list, against differences of its loss along a random direction of all its weights.

In evaluation mode, where nothing is drawn; the estimator of what is drawn has its own test, and the scaled gradients of
ConvS2S, which are not the loss's on purpose, are left unscaled.
"""

import pytest
import torch

from calque.models import convolutional
from calque.models.model import Model
from tests.laws.models import MODELS, build, source, target

STEP = 1e-6


def loss(model: Model) -> torch.Tensor:
    """Depends on everything a model gives out."""
    sentences, tokens = source(), target()
    output = model(sentences, tokens)
    losses = model.losses(output, sentences.values, tokens, smoothing=0.1 if model.copies else 0.0, ignored=-1)
    return losses.sum() + sum(extra.sum() for extra in output.losses.values())


@pytest.mark.parametrize("name", MODELS)
def test_gradient_is_the_slope(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolutional, "scale_gradient", lambda values, scale: values)  # noqa: ARG005
    model = build(name)
    weights = [one for one in model.parameters() if one.requires_grad]
    gradients = torch.autograd.grad(loss(model), weights, allow_unused=True)
    direction = [torch.randn_like(one) for one in weights]
    slope = sum((one * other).sum() for one, other in zip(gradients, direction, strict=True) if one is not None)

    @torch.no_grad()
    def at(step: float) -> torch.Tensor:
        for weight, way in zip(weights, direction, strict=True):
            weight.add_(way, alpha=step)
        found = loss(model)
        for weight, way in zip(weights, direction, strict=True):
            weight.sub_(way, alpha=step)
        return found

    measured = (at(STEP) - at(-STEP)) / (2 * STEP)
    torch.testing.assert_close(measured, slope, rtol=1e-5, atol=1e-5)
