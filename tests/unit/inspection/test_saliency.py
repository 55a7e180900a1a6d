"""Saliency against finite differences, and integrated gradients against the difference that they must sum to."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from tests.laws.models import build
from torch import Tensor, nn

from calque.inspection.attention_maps import read
from calque.inspection.saliency import gradient_times_input, integrated_gradients
from calque.models.model import Model
from calque.text import EOS

MODELS = [
    "rnn",
    "luong-general-feeding",
    "bahdanau",
    "conv",
    "mean-encoder-luong-decoder",
    "transformer-pre",
    "transformer-rotary",
]
SOURCE, TARGET = [4, 7, 5, 9], [6, 4, 8, EOS]


@contextmanager
def nudged(module: nn.Module, change: Tensor, *, times: float = 1.0) -> Iterator[None]:
    """A context in which an embedding returns `times` its vectors plus a change."""
    handle = module.register_forward_hook(lambda _module, _inputs, output: output * times + change)
    try:
        yield
    finally:
        handle.remove()


def log_probs(model: Model) -> Tensor:
    """[T], of the target's pieces."""
    return read(model, SOURCE, TARGET).log_probs.gather(1, torch.tensor(TARGET)[:, None]).squeeze(1)


def vectors(model: Model) -> Tensor:
    """[S,E], that the encoder reads."""
    kept: list[Tensor] = []
    handle = model.encoder.embedding.register_forward_hook(lambda _module, _inputs, output: kept.append(output[0]))
    log_probs(model)
    handle.remove()
    return kept[0]


@pytest.mark.parametrize("name", MODELS)
def test_gradient_times_input_is_the_slope_along_the_input(name: str) -> None:
    model = build(name)
    saliency, inputs = gradient_times_input(model, SOURCE, TARGET), vectors(model)
    assert saliency.shape == (len(TARGET), len(SOURCE) + 1)
    step = 1e-6
    for place in range(len(SOURCE) + 1):
        change = torch.zeros_like(inputs)
        change[place] = step * inputs[place]
        with nudged(model.encoder.embedding, change):
            above = log_probs(model)
        with nudged(model.encoder.embedding, -change):
            below = log_probs(model)
        torch.testing.assert_close(saliency[:, place], (above - below) / (2 * step), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "transformer-rotary"])  # its norms jump at zero
def test_integrated_gradients_sum_to_the_difference_from_zero_vectors(name: str) -> None:
    model = build(name)
    with torch.no_grad():  # smooth enough for the midpoint rule
        for parameter in model.parameters():
            parameter.mul_(0.3)
    with nudged(model.encoder.embedding, torch.zeros(()), times=0.0):
        nothing = log_probs(model)
    sums = integrated_gradients(model, SOURCE, TARGET, steps=300).sum(dim=1)
    torch.testing.assert_close(sums, log_probs(model) - nothing, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("name", MODELS)
def test_saliency_leaves_the_model_as_it_was(name: str) -> None:
    model = build(name).train()
    gradient_times_input(model, SOURCE, TARGET)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
