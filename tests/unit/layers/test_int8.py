"""Models in 8 bits: which weights are rounded, which products are replaced, and what the replaced layers compute."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.convolution import GatedConvolution, NormalisedLinear
from calque.layers.int8 import Float64Linear, is_rounded, parameter_count, quantise
from calque.layers.int8_linear import Int8Linear, Levels, from_levels, to_levels
from calque.layers.observers import RecurrentStep
from calque.layers.output import FullOutput
from calque.layers.recurrent import Recurrence
from calque.models.interfaces import Read
from calque.models.recurrent import _run_direction

CELLS = ["rnn", "rnn-relu", "lstm", "gru", "gru-original"]


def rounded(weight: Tensor) -> Tensor:
    return from_levels(to_levels(weight))


@torch.no_grad()
def test_large_products_are_replaced_and_small_ones_stay() -> None:
    linears = (nn.Linear(256, 256), nn.Linear(64, 64), nn.Linear(512, 32))
    model = nn.Sequential(*linears, FullOutput(512, width=128), NormalisedLinear(256, outputs=256), nn.LayerNorm(256))
    before = [linear.weight.clone() for linear in linears]
    count = sum(parameter.numel() for parameter in model.parameters())
    quantise(model)
    assert parameter_count(model) == count
    assert [type(layer) for layer in model[:3]] == [Int8Linear, Int8Linear, Float64Linear]
    assert isinstance(model[3].product, Int8Linear) and isinstance(model[4], Int8Linear)
    assert torch.equal(from_levels(Levels(model[1].weight, model[1].scales)), rounded(before[1]))
    assert torch.equal(model[2].weight, before[2].double()), "too narrow to be rounded"
    assert model[2](torch.randn(3, 512)).dtype == torch.float32
    hidden = torch.randn(4, 128)
    exact = F.linear(hidden, model[3].weight, model[3].bias)
    torch.testing.assert_close(model[3].logits(hidden), exact, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("shape", [(64, 64), (64, 32, 3), (63, 64), (64, 63), (64,), (64, 64, 3)])
def test_weights_with_64_rows_and_columns_are_rounded(shape: tuple[int, ...]) -> None:
    columns = torch.Size(shape[1:]).numel() if len(shape) > 1 else 0
    assert is_rounded(torch.randn(shape)) == (shape[0] >= 64 and columns >= 64)
    assert not is_rounded(torch.zeros(shape, dtype=torch.long))


@torch.no_grad()
def test_tied_weights_stay_tied() -> None:
    model = nn.ModuleDict({"embedding": nn.Embedding(512, 128), "output": FullOutput(512, width=128)})
    model["output"].weight = model["embedding"].weight
    quantise(model)
    output = model["output"]
    assert output.weight is model["embedding"].weight
    product = output.product
    assert torch.equal(product.weight.float() * product.scales[:, None], output.weight)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_recurrent_layers_are_close_to_float_and_read_no_padding(cell: str, layer_norm: bool) -> None:
    torch.manual_seed(2)
    layer = Recurrence(cell, input_width=300, width=256, layer_norm=layer_norm)
    inputs, lengths = torch.randn(5, 6, 300), torch.tensor([3, 6, 1, 6, 4])
    exact = [run_direction(layer, inputs, lengths, backward=back) for back in (False, True)]
    state = tuple(0.5 * torch.randn(5, 256) for _ in layer.zero_state(5, like=inputs))
    exact_step = layer(inputs[:, :1], state)
    quantise(layer)
    assert layer.products is not None and not layer.is_fused(None)
    garbage = inputs.masked_fill((torch.arange(6) >= lengths[:, None])[..., None], 1e6)
    mask = torch.arange(6) < lengths[:, None]
    for number, (outputs, final) in enumerate(exact):
        ours, our_final = run_direction(layer, garbage, lengths, backward=number == 1)
        torch.testing.assert_close(ours[mask], outputs[mask], rtol=0, atol=0.1)
        for one, other in zip(our_final, final, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0.1)
        observed = steps_of(layer, inputs, lengths, backward=number == 1)
        torch.testing.assert_close(observed[mask], ours[mask], rtol=0, atol=1e-6)
    outputs, after = layer(inputs[:, :1], state)
    for one, other in zip((outputs, *after), (exact_step[0], *exact_step[1]), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0.1)
    in_parts = layer.project(inputs[:, 0, :200]) + layer.rest(200)(inputs[:, 0, 200:])
    torch.testing.assert_close(in_parts, layer.project(inputs[:, 0]), rtol=0, atol=0.1)


def run_direction(layer: Recurrence, inputs: Tensor, lengths: Tensor, *, backward: bool) -> Any:
    mask = torch.arange(inputs.shape[1]) < lengths[:, None]
    read = Read(inputs, lengths, lengths, mask, None)
    return _run_direction(layer, inputs, read, backward=backward, keep=None, weight=None)


def steps_of(layer: Recurrence, inputs: Tensor, lengths: Tensor, *, backward: bool) -> Tensor:
    """The outputs while somebody observes the layer, which then reads padding too."""
    steps: list[RecurrentStep | Tensor] = []
    layer.state_observer = steps.append
    outputs, _ = run_direction(layer, inputs, lengths, backward=backward)
    layer.state_observer = None
    assert len(steps) == inputs.shape[1]
    return outputs


@torch.no_grad()
def test_rows_of_a_recurrent_layer_do_not_depend_on_their_neighbours() -> None:
    layer = quantise(Recurrence("lstm", input_width=128, width=128))
    inputs, lengths = torch.randn(9, 7, 128), torch.tensor([7, 3, 5, 7, 1, 2, 7, 4, 6])
    together, final = run_direction(layer, inputs, lengths, backward=False)
    for row, length in enumerate(lengths.tolist()):
        one, size = inputs[row : row + 1, :length], lengths[row : row + 1]
        alone, last = run_direction(layer, one, size, backward=False)
        torch.testing.assert_close(alone[0], together[row, :length], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(last[1][0], final[1][row], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kernel", [1, 3, 4])
@torch.no_grad()
def test_convolutions_are_close_to_float_and_do_not_depend_on_neighbours(kernel: int) -> None:
    layer = GatedConvolution(256, kernel=kernel)
    layer.magnitude *= 1.3
    inputs = torch.randn(5, 6 + kernel - 1, 256)
    exact = layer(inputs)
    quantise(layer)
    outputs = layer(inputs)
    torch.testing.assert_close(outputs, exact, rtol=0, atol=0.2)
    assert (outputs - exact).square().mean() < 1e-3 * exact.square().mean()
    assert torch.equal(layer(inputs[2:3, 1 : 1 + kernel]), outputs[2:3, 1:2])
    assert not any(value.is_floating_point() and value.dim() > 1 for value in layer.parameters()), "no float copy"
