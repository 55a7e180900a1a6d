"""Recurrent layers: many positions at once, one at a time, and in parts."""

import pytest
import torch
from tests.laws.models import loud
from torch.autograd import gradcheck

from calque.layers.recurrent import Recurrence, RecurrentStack, state_parts

CELLS = ["rnn", "lstm", "gru", "gru-original"]
ROWS, SIZE, INPUTS, WIDTH, LAYERS = 3, 5, 7, 4, 2


def some_state(cell: str, *shape: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(*shape, dtype=torch.float64) for _ in range(state_parts(cell)))


def some_inputs() -> torch.Tensor:
    return torch.randn(ROWS, SIZE, INPUTS, dtype=torch.float64)


@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_forward_is_a_loop_of_steps_on_projected_inputs(cell: str) -> None:
    layer = loud(Recurrence(cell, input_width=INPUTS, width=WIDTH))
    inputs, state = some_inputs(), some_state(cell, ROWS, WIDTH)
    outputs, final = layer(inputs, state)
    for place in range(SIZE):
        output, state = layer.step(layer.project(inputs[:, place]), state)
        torch.testing.assert_close(output, outputs[:, place], rtol=0, atol=1e-12)
    torch.testing.assert_close(state, final, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_shares_of_neighbouring_columns_add_up_to_the_whole(cell: str) -> None:
    layer, inputs = loud(Recurrence(cell, input_width=INPUTS, width=WIDTH)), some_inputs()
    parts = [layer.project(inputs[..., :3]), layer.project(inputs[..., 3:5], start=3)]
    parts.append(layer.project(inputs[..., 5:], start=5))
    torch.testing.assert_close(sum(parts), layer.project(inputs), rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_zero_state_is_what_pytorch_starts_from(cell: str) -> None:
    layer, inputs = loud(Recurrence(cell, input_width=INPUTS, width=WIDTH)), some_inputs()
    zero = layer.zero_state(ROWS, like=inputs)
    assert len(zero) == state_parts(cell)
    if cell != "gru-original":  # which PyTorch does not have
        torch.testing.assert_close(layer(inputs, zero)[0], layer.kernel(inputs)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_of_a_step(cell: str) -> None:
    layer = loud(Recurrence(cell, input_width=INPUTS, width=WIDTH))
    projected = layer.project(some_inputs()[:, 0]).detach().requires_grad_()
    state = tuple(part.requires_grad_() for part in some_state(cell, ROWS, WIDTH))
    assert gradcheck(lambda inputs, *state: layer.step(inputs, state)[1], (projected, *state))


@pytest.mark.parametrize("cell", CELLS)
def test_forward_and_steps_give_the_same_gradients(cell: str) -> None:
    layer, inputs = loud(Recurrence(cell, input_width=INPUTS, width=WIDTH)), some_inputs()
    state = some_state(cell, ROWS, WIDTH)
    weights = list(layer.parameters())
    at_once = torch.autograd.grad(layer(inputs, state)[0].square().sum(), weights)
    stepped, _ = layer._unrolled(inputs, state)
    torch.testing.assert_close(torch.autograd.grad(stepped.square().sum(), weights), at_once, rtol=0, atol=1e-9)


@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_a_stack_read_at_once_is_the_stack_stepped(cell: str) -> None:
    stack = loud(RecurrentStack(cell, input_width=INPUTS, width=WIDTH, layers=LAYERS, dropout=0.5))
    inputs, state = some_inputs(), some_state(cell, ROWS, LAYERS, WIDTH)
    outputs, final = stack(inputs, state)
    for place in range(SIZE):
        output, state = stack.step(stack.first.project(inputs[:, place]), state)
        torch.testing.assert_close(output, outputs[:, place], rtol=0, atol=1e-12)
    torch.testing.assert_close(state, final, rtol=0, atol=1e-12)


@pytest.mark.parametrize("stepped", [False, True])
@torch.no_grad()
def test_a_stack_drops_between_layers_and_nowhere_else(stepped: bool) -> None:
    inputs = some_inputs()

    def read(*, layers: int, dropout: float) -> torch.Tensor:
        stack = loud(RecurrentStack("gru", input_width=INPUTS, width=WIDTH, layers=layers, dropout=dropout)).train()
        state = some_state("gru", ROWS, layers, WIDTH)
        return stack.step(stack.first.project(inputs[:, 0]), state)[0] if stepped else stack(inputs, state)[0]

    def dropping_matters(layers: int) -> bool:
        torch.manual_seed(0)
        dropped = read(layers=layers, dropout=0.9)
        torch.manual_seed(0)
        return not torch.equal(dropped, read(layers=layers, dropout=0.0))

    assert not dropping_matters(1)
    assert dropping_matters(2)
