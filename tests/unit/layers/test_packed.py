"""Packed products are those of the plain layers, follow changes of the weights, and leave gradients to these."""

import copy

import pytest
import torch
from torch import nn

from calque.layers.output import FullOutput
from calque.layers.packed import PackedLinear, pack, rounded_up


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7, 33), (2, 3, 33), (1, 33), (600, 33)])
def test_a_packed_layer_computes_what_the_plain_one_computes(shape: tuple[int, ...], bias: bool) -> None:
    plain = nn.Linear(33, 50, bias=bias)
    packed = PackedLinear.sharing(plain.weight, plain.bias)
    inputs = torch.randn(shape)
    with torch.no_grad():
        torch.testing.assert_close(packed(inputs), plain(inputs), rtol=1e-5, atol=1e-5)
        plain.weight.mul_(2)
        torch.testing.assert_close(packed(inputs), plain(inputs), rtol=1e-5, atol=1e-5)


def test_a_layer_can_be_used_in_inference_mode_and_copied() -> None:
    with torch.inference_mode():
        plain = nn.Linear(8, 9)
        packed = PackedLinear.sharing(plain.weight, plain.bias)
        inputs = torch.randn(3, 8)
        torch.testing.assert_close(packed(inputs), plain(inputs))
        torch.testing.assert_close(copy.deepcopy(packed)(inputs), plain(inputs))
        assert packed(inputs[:0]).shape == (0, 9)


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


def test_output_layers_are_packed_and_parameters_keep_their_names() -> None:
    model = nn.Sequential(nn.Linear(8, 6), FullOutput(20, width=6))
    names, inputs = [name for name, _ in model.named_parameters()], torch.randn(3, 8)
    with torch.no_grad():
        expected = model[1].log_probs(model[0](inputs))
        pack(model)
        assert [name for name, _ in model.named_parameters()] == names
        assert isinstance(model[1].product, PackedLinear)
        torch.testing.assert_close(model[1].log_probs(model[0](inputs)), expected)


def test_few_different_numbers_of_rows_reach_the_kernels() -> None:
    sizes = [rounded_up(rows) for rows in range(1, 2049)]
    assert all(size >= rows for rows, size in enumerate(sizes, start=1))
    assert sorted(set(sizes)) == [1, 2, 4, 8, *range(16, 256, 16), *range(256, 1024, 64), *range(1024, 2049, 256)]
