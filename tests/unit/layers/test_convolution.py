"""Gated convolutions and weight normalisation against PyTorch's own, their initialisation, and gradient scaling."""

import copy
from functools import partial

import pytest
import torch
from tests.laws.models import loud
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from calque.layers.convolution import GatedConvolution, NormalisedLinear, keep_normalised, normalised, scale_gradient

ROWS, TARGET, WIDTH = 3, 7, 5
KERNELS = [1, 2, 3, 5]


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def pytorch_module(kind: type, *sizes: int, like: NormalisedLinear | GatedConvolution) -> nn.Module:
    """PyTorch's module with its weight norm and our weights."""
    theirs = weight_norm(kind(*sizes).double())
    theirs.parametrizations.weight.original0.copy_(like.magnitude.reshape(-1, *[1] * (like.direction.dim() - 1)))
    theirs.parametrizations.weight.original1.copy_(like.direction)
    theirs.bias.copy_(like.bias)
    return theirs


@pytest.mark.parametrize("kernel", KERNELS)
@torch.no_grad()
def test_gated_convolution_is_pytorchs(kernel: int) -> None:
    ours = loud(GatedConvolution(WIDTH, kernel=kernel))
    theirs = pytorch_module(nn.Conv1d, WIDTH, 2 * WIDTH, kernel, like=ours)
    window = random(ROWS, TARGET + kernel - 1, WIDTH)
    outputs = ours(window)
    assert outputs.shape == (ROWS, TARGET, WIDTH)
    close(outputs, F.glu(theirs(window.transpose(1, 2)).transpose(1, 2), dim=-1))


@torch.no_grad()
def test_normalised_linear_is_pytorchs() -> None:
    ours = loud(NormalisedLinear(WIDTH, outputs=4))
    inputs = random(ROWS, TARGET, WIDTH)
    close(ours(inputs), pytorch_module(nn.Linear, WIDTH, 4, like=ours)(inputs))


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 3)])
def test_the_norm_of_each_outputs_weights_is_its_magnitude(shape: tuple[int, ...]) -> None:
    direction, magnitude = random(*shape), random(shape[0])
    weight = normalised(direction, magnitude=magnitude)
    close(weight.flatten(1).norm(dim=1), magnitude.abs())
    close(weight, normalised(direction * 7, magnitude=magnitude))


def test_layers_start_with_the_papers_variance_and_without_bias() -> None:
    torch.manual_seed(0)
    for layer, std in (
        (NormalisedLinear(200, outputs=300), (1 / 200) ** 0.5),
        (NormalisedLinear(200, outputs=300, retained=0.8), (0.8 / 200) ** 0.5),
        (GatedConvolution(100, kernel=3, retained=0.9), (4 * 0.9 / 300) ** 0.5),
    ):
        weight = normalised(layer.direction, magnitude=layer.magnitude)
        torch.testing.assert_close(weight, layer.direction)
        assert weight.std().item() == pytest.approx(std, rel=0.02)
        assert not layer.bias.any()


@torch.no_grad()
def test_a_gate_preserves_the_variance_of_a_small_input() -> None:
    torch.manual_seed(0)
    layer, window = GatedConvolution(256, kernel=3), torch.randn(16, 66, 256)
    assert layer(0.05 * window).var().item() == pytest.approx(0.05**2, rel=0.05)


def test_scaling_gradients_does_not_change_the_values() -> None:
    values = random(2, 3).requires_grad_()
    after = scale_gradient(values, scale=0.25)
    assert torch.equal(after, values)
    after.square().sum().backward()
    close(values.grad, 0.25 * 2 * values.detach())


LAYERS = {
    "linear": (partial(NormalisedLinear, 6, outputs=5), (3, 6)),
    "convolution": (partial(GatedConvolution, 6, kernel=3), (2, 7, 6)),
    "one position": (partial(GatedConvolution, 6, kernel=3), (4, 3, 6)),
    "kernel 1": (partial(GatedConvolution, 6, kernel=1), (4, 3, 6)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_kept_weights_are_those_that_every_step_computes(name: str) -> None:
    build, shape = LAYERS[name]
    layer, inputs = build().double(), torch.randn(shape, dtype=torch.float64)
    with torch.no_grad():
        layer.magnitude *= 1.7
        expected, weight = layer(inputs), layer.weight()
        keep_normalised(layer)
        torch.testing.assert_close(layer(inputs), expected, rtol=1e-12, atol=1e-12)
        assert torch.equal(layer.weight(), weight)
        assert layer.weight() is layer.weight(), "computed once"
        copied = copy.deepcopy(layer)
        assert torch.equal(copied.weight(), weight)


@pytest.mark.parametrize("name", LAYERS)
def test_kept_weights_follow_the_parameters(name: str) -> None:
    build, _ = LAYERS[name]
    layer = build()
    keep_normalised(layer)
    with torch.no_grad():
        before = layer.weight()
        layer.magnitude *= 2
        torch.testing.assert_close(layer.weight(), 2 * before)
        layer.double()
        assert layer.weight().dtype == torch.float64
        layer.load_state_dict({name: 3 * value for name, value in layer.state_dict().items()}, assign=True)
        torch.testing.assert_close(layer.weight(), 6 * before.double())


def test_gradients_do_not_use_kept_weights() -> None:
    layer = NormalisedLinear(6, outputs=5)
    keep_normalised(layer)
    with torch.no_grad():
        layer(torch.randn(2, 6))
    layer(torch.randn(2, 6)).sum().backward()
    assert layer.direction.grad is not None and layer.direction.grad.any()
