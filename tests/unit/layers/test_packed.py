"""Packed products are those of the plain layers, follow changes of the weights, and leave gradients to these."""

import copy

import pytest
import torch
from torch import nn

from calque.layers.output import FullOutput
from calque.layers.packed import WIDE, PackedLinear, pack, rounded_up
from calque.native.operations import is_available

MANY = 200  # rows, so that the packed weight is used


@pytest.fixture(params=["kernel in C", "oneDNN"], autouse=True)
def _kernel(request: pytest.FixtureRequest) -> None:
    """Every test runs with both kinds of kernels."""
    if request.param == "oneDNN":
        request.getfixturevalue("without_kernels")


def is_packed(layer: PackedLinear) -> bool:
    return (layer._product if is_available() else layer._packed) is not None


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(MANY, 33), (20, 13, 33), (1024, 33), (3, 33), (1, 33), (0, 33)])
@pytest.mark.parametrize("size", [50, WIDE])
def test_a_packed_layer_computes_what_the_plain_one_computes(shape: tuple[int, ...], size: int, bias: bool) -> None:
    plain = nn.Linear(33, size, bias=bias)
    packed = PackedLinear.sharing(plain.weight, plain.bias)
    inputs = torch.randn(shape)
    with torch.no_grad():
        torch.testing.assert_close(packed(inputs), plain(inputs), rtol=1e-5, atol=1e-5)
        assert is_packed(packed) == (is_available() or size == WIDE or inputs.numel() >= MANY * 33)
        plain.weight.mul_(2)
        torch.testing.assert_close(packed(inputs), plain(inputs), rtol=1e-5, atol=1e-5)


def test_a_layer_can_be_used_in_inference_mode_and_copied() -> None:
    with torch.inference_mode():
        plain = nn.Linear(8, 9)
        packed = PackedLinear.sharing(plain.weight, plain.bias)
        inputs = torch.randn(MANY, 8)
        torch.testing.assert_close(packed(inputs), plain(inputs))
        assert is_packed(packed)
        torch.testing.assert_close(copy.deepcopy(packed)(inputs), plain(inputs))


def test_gradients_and_other_precisions_use_the_plain_weight() -> None:
    plain = nn.Linear(8, 9)
    packed = PackedLinear.sharing(plain.weight, plain.bias)
    inputs = torch.randn(4, 8, requires_grad=True)
    (packed(inputs) ** 2).sum().backward()
    gradient, plain.weight.grad = plain.weight.grad, None
    (plain(inputs) ** 2).sum().backward()
    assert torch.equal(gradient, plain.weight.grad)
    packed.double()
    with torch.no_grad():
        assert packed(inputs.double()).dtype == torch.float64


def test_large_layers_are_packed_and_parameters_keep_their_names() -> None:
    model = nn.Sequential(nn.Linear(8, 128), nn.Sequential(nn.Linear(128, 128)), FullOutput(WIDE, width=128))
    names, inputs = [name for name, _ in model.named_parameters()], torch.randn(MANY, 8)

    def run(layers: nn.Sequential) -> torch.Tensor:
        return layers[2].log_probs(layers[1](layers[0](inputs)))  # type: ignore[operator, no-any-return]

    with torch.no_grad():
        expected = run(model)
        pack(model)
        assert [name for name, _ in model.named_parameters()] == names
        assert isinstance(model[0], PackedLinear) == is_available()  # too small for oneDNN
        layers = [model[1][0], model[2].product]
        torch.testing.assert_close(run(model), expected)
        assert all(isinstance(layer, PackedLinear) and is_packed(layer) for layer in layers)
        torch.testing.assert_close(run(copy.deepcopy(model)), expected)


def test_few_different_numbers_of_rows_reach_the_kernels() -> None:
    sizes = [rounded_up(rows) for rows in range(1, 4097)]
    assert all(size >= rows for rows, size in enumerate(sizes, start=1))
    assert sorted(set(sizes)) == [
        1,
        2,
        4,
        8,
        *range(16, 256, 16),
        *range(256, 1024, 64),
        *range(1024, 2048, 256),
        *range(2048, 4097, 512),
    ]
