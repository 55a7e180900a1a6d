"""Gradients of every model of the list against finite differences of its loss along a random direction.

In evaluation mode, where nothing is sampled (the estimator for sampled positions has its own test), and without the
gradient scaling of ConvS2S, which deliberately changes the gradient.
"""

import pytest
import torch

from calque.models import convolutional
from calque.models.model import Model
from tests.laws.models import MODELS, build, source, target

STEP = 1e-6


def loss(model: Model) -> torch.Tensor:
    """A loss that depends on all outputs of a model."""
    sentences, tokens = source(), target()
    output = model(sentences, tokens)
    losses = model.losses(output, sentences.values, tokens, smoothing=0.1 if model.copies else 0.0, ignored=-1)
    return losses.sum() + sum(extra.sum() for extra in output.losses.values())


@pytest.mark.parametrize("name", MODELS)
def test_gradient_is_the_slope(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolutional, "scale_gradient", lambda values, scale: values)  # noqa: ARG005
    model = build(name)
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(loss(model), weights, allow_unused=True)
    direction = [torch.randn_like(parameter) for parameter in weights]
    slope = sum(
        (parameter * direction_part).sum()
        for parameter, direction_part in zip(gradients, direction, strict=True)
        if parameter is not None
    )

    @torch.no_grad()
    def at(step: float) -> torch.Tensor:
        for weight, step_direction in zip(weights, direction, strict=True):
            weight.add_(step_direction, alpha=step)
        value = loss(model)
        for weight, step_direction in zip(weights, direction, strict=True):
            weight.sub_(step_direction, alpha=step)
        return value

    measured = (at(STEP) - at(-STEP)) / (2 * STEP)
    torch.testing.assert_close(measured, slope, rtol=1e-5, atol=1e-5)
