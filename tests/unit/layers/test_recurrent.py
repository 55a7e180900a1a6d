"""Recurrent layers: many positions at once, one at a time, and in parts."""

import pytest
import torch
from tests.laws.models import loud

from calque.layers.recurrent import Recurrence, state_parts

CELLS = ["rnn", "rnn-relu", "lstm", "gru", "gru-original"]
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
    parts = layer.project(inputs[..., :3]) + layer.rest(3)(inputs[..., 3:])
    torch.testing.assert_close(parts, layer.project(inputs), rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_zero_state_is_what_pytorch_starts_from(cell: str) -> None:
    layer, inputs = loud(Recurrence(cell, input_width=INPUTS, width=WIDTH)), some_inputs()
    zero = layer.zero_state(ROWS, like=inputs)
    assert len(zero) == state_parts(cell)
    if cell != "gru-original":  # which PyTorch does not have
        torch.testing.assert_close(layer(inputs, zero)[0], layer.kernel(inputs)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_forward_and_steps_give_the_same_gradients(cell: str) -> None:
    layer, inputs = loud(Recurrence(cell, input_width=INPUTS, width=WIDTH)), some_inputs()
    state = some_state(cell, ROWS, WIDTH)
    weights = list(layer.parameters())
    at_once = torch.autograd.grad(layer(inputs, state)[0].square().sum(), weights)
    stepped, _ = layer.unrolled(inputs, state)
    torch.testing.assert_close(torch.autograd.grad(stepped.square().sum(), weights), at_once, rtol=0, atol=1e-9)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_with_lengths_each_row_ends_where_it_ends(cell: str, layer_norm: bool) -> None:
    layer = loud(Recurrence(cell, input_width=INPUTS, width=WIDTH, layer_norm=layer_norm))
    inputs, state, sizes = some_inputs(), some_state(cell, ROWS, WIDTH), [SIZE, 1, 3]
    _, final = layer.unrolled(inputs, state, lengths=torch.tensor(sizes))
    for row, size in enumerate(sizes):
        _, alone = layer(inputs[[row], :size], tuple(part[[row]] for part in state))
        for one, other in zip(final, alone, strict=True):
            torch.testing.assert_close(one[[row]], other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_what_is_not_kept_does_not_recur(cell: str) -> None:
    """A hidden unit that is dropped changes no product; an LSTM's cell and a GRU's old state still carry it on."""
    layer, inputs = loud(Recurrence(cell, input_width=INPUTS, width=WIDTH)), some_inputs()
    state = some_state(cell, ROWS, WIDTH)
    keep = torch.ones(ROWS, WIDTH, dtype=torch.float64)
    keep[:, 1] = 0
    other = (state[0].index_fill(1, torch.tensor([1]), 7.7), *state[1:])
    projected = layer.project(inputs[:, 0])
    one, another = (layer.step(projected, each, keep=keep)[0] for each in (state, other))
    untouched = [0, 2, 3]
    assert torch.equal(one[:, untouched], another[:, untouched])
    assert not torch.equal(one, layer.step(projected, state)[0])
