"""Products in 8 bits: exact in their integers, close to the real product, the same whatever else is in the batch."""

import copy
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from calque.layers.int8_linear import Int8Linear, Levels, from_levels, input_levels, quantise_rows, to_levels

WIDTHS = [(64, 64), (96, 200), (256, 77), (1024, 64)]


@pytest.mark.parametrize(("inputs", "outputs"), WIDTHS)
@pytest.mark.parametrize("bias", [True, False])
def test_the_product_is_that_of_its_integers(inputs: int, outputs: int, bias: bool) -> None:
    linear = nn.Linear(inputs, outputs, bias=bias)
    layer = Int8Linear.of(linear.weight, linear.bias)
    rows = torch.randn(3, 5, inputs)
    levels, scales = quantise_rows(rows.view(15, -1))
    weight = layer.weight.double() * layer.scales.double()[:, None]
    expected = (levels[:15].double() - input_levels() - 1) * scales.double() @ weight.t() + layer.bias.double()
    torch.testing.assert_close(layer(rows).double(), expected.view(3, 5, -1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("inputs", "outputs"), WIDTHS)
def test_the_product_is_close_to_the_real_one(inputs: int, outputs: int) -> None:
    """Each of I products is off by at most half a level of either factor."""
    linear, rows = nn.Linear(inputs, outputs), torch.randn(9, inputs)
    layer = Int8Linear.of(linear.weight, linear.bias)
    row_level = rows.abs().amax(dim=1, keepdim=True) / input_levels()
    bound = row_level / 2 * linear.weight.abs().sum(dim=1) + layer.scales / 2 * rows.abs().sum(dim=1, keepdim=True)
    bound = bound + inputs * row_level * layer.scales / 4 + 1e-5
    error = (layer(rows) - linear(rows)).abs()
    assert (error <= bound).all()
    assert error.mean() > 0


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    layer = Int8Linear.of(torch.randn(300, 128), torch.randn(300))
    rows = torch.randn(40, 128) * torch.logspace(-4, 4, 40)[:, None]
    together = layer(rows)
    for row in range(40):
        assert torch.equal(layer(rows[row : row + 1]), together[row : row + 1])


def test_zeros_and_extreme_rows() -> None:
    layer = Int8Linear.of(torch.cat([torch.zeros(1, 64), torch.randn(69, 64)]), torch.randn(70))
    outputs = layer(torch.cat([torch.zeros(1, 64), torch.full((1, 64), 1e30), torch.full((1, 64), 1e-30)]))
    assert outputs.isfinite().all()
    assert torch.equal(outputs[0], layer.bias)
    assert (outputs[:, 0] == layer.bias[0]).all()


def test_the_highest_levels_do_not_overflow() -> None:
    layer = Int8Linear.of(torch.ones(64, 1024), None)
    torch.testing.assert_close(layer(torch.ones(1, 1024)), torch.full((1, 64), 1024.0), rtol=1e-4, atol=0)
    torch.testing.assert_close(layer(-torch.ones(1, 1024)), torch.full((1, 64), -1024.0), rtol=1e-4, atol=0)


OLDER = """
import torch
from calque.layers import int8_linear as int8
int8.input_levels = lambda: 63
torch.manual_seed(0)
for weight, rows in ((torch.ones(64, 1024), torch.ones(3, 1024)), (torch.rand(70, 256), torch.ones(5, 256)),
                     (torch.randn(70, 256), torch.randn(40, 256))):
    layer = int8.Int8Linear.of(weight, None)
    levels, scales = int8.quantise_rows(rows)
    exact = (levels[: len(rows)].double() - 64) * scales @ (layer.weight.double() * layer.scales[:, None]).t()
    torch.testing.assert_close(layer(rows).double(), exact, rtol=1e-5, atol=1e-4)
"""


@pytest.mark.parametrize("instructions", ["AVX2", "AVX512_CORE"])
def test_seven_bits_do_not_overflow_on_processors_without_vnni(instructions: str) -> None:
    """Restricts oneDNN to older instructions, which add pairs of products in 16 bits."""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": instructions}
    subprocess.run([sys.executable, "-c", OLDER], env=environment, check=True, timeout=120)


def test_a_layer_that_was_used_can_be_copied() -> None:
    layer, rows = Int8Linear.of(torch.randn(64, 64), None), torch.randn(2, 64)
    expected = layer(rows)
    assert torch.equal(copy.deepcopy(layer)(rows), expected)
    assert layer(rows[:0]).shape == (0, 64)


def test_parts_of_the_inputs_add_up_and_parts_of_the_outputs_are_the_same() -> None:
    layer, rows = Int8Linear.of(torch.randn(90, 200), torch.randn(90)), torch.randn(7, 200)
    first, second = layer.columns(0, 72), layer.columns(72, 200)
    weight = from_levels(Levels(layer.weight, layer.scales))
    exact = torch.nn.functional.linear(rows[:, 72:], weight[:, 72:])
    torch.testing.assert_close(second(rows[:, 72:]), exact, rtol=0.05, atol=0.3)
    torch.testing.assert_close(first(rows[:, :72]) + second(rows[:, 72:]), layer(rows), rtol=0.05, atol=0.5)
    assert torch.equal(first(torch.zeros(1, 72))[0], layer.bias)
    assert torch.equal(second(torch.zeros(1, 128))[0], torch.zeros(90))
    assert torch.equal(torch.cat([layer.rows(0, 30)(rows), layer.rows(30, 90)(rows)], dim=1), layer(rows))


@pytest.mark.parametrize("shape", [(80, 70), (3, 200), (64, 32, 3)])
@pytest.mark.parametrize("size", [1.0, 1e-38, 1e-44, 1e30, 0.0])
def test_rounding_again_changes_nothing(shape: tuple[int, ...], size: float) -> None:
    weight = torch.randn(shape) * torch.logspace(-3, 3, shape[0]).view(-1, *[1] * (len(shape) - 1)) * size
    levels = to_levels(weight)
    rounded = from_levels(levels)
    exact = levels.values.double() * levels.scales.double().view(-1, *[1] * (len(shape) - 1))
    assert torch.equal(rounded.double(), exact), "no rounding on the way back"
    again = to_levels(rounded)
    assert torch.equal(again.values, levels.values) and torch.equal(again.scales, levels.scales)
    step = weight.flatten(1).abs().amax(dim=1) / 127
    bound = step * (0.5 + 0.01) + torch.finfo(torch.float32).tiny
    assert ((rounded - weight).flatten(1).abs() <= bound[:, None]).all()
