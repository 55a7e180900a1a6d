"""Recurrent layers: many positions at once, one at a time, and in parts."""

import copy

import pytest
import torch
from tests.laws.models import loud

from calque.layers.recurrent import Recurrence, state_parts

CELLS = ["rnn", "rnn-relu", "lstm", "gru", "gru-original"]
KERNELS = CELLS[:-1]
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


# --- DropConnect ---


def masked(layer: Recurrence, mask: torch.Tensor) -> Recurrence:
    """The reference: a layer of its own, whose recurrent weights are multiplied by the mask once and for all."""
    other = copy.deepcopy(layer)
    with torch.no_grad():
        other.kernel.weight_hh_l0.mul_(mask)
    return other


def dropping(cell: str, *, layer_norm: bool = False) -> tuple[Recurrence, torch.Tensor]:
    layer = loud(Recurrence(cell, input_width=INPUTS, width=WIDTH, layer_norm=layer_norm)).train()
    return layer, layer.weight_mask(dropout=0.5)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_dropped_weights_are_those_of_a_layer_that_has_only_them(cell: str, layer_norm: bool) -> None:
    layer, mask = dropping(cell, layer_norm=layer_norm)
    reference, weight = masked(layer, mask), layer.dropped(mask)
    inputs, state, lengths = some_inputs(), some_state(cell, ROWS, WIDTH), torch.tensor([SIZE, 1, 3])
    expected = reference(inputs, state)
    for found in (layer(inputs, state, weight=weight), layer.unrolled(inputs, state, weight=weight)):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    for place in range(SIZE):
        output, state = layer.step(layer.project(inputs[:, place]), state, weight=weight)
        torch.testing.assert_close(output, expected[0][:, place], rtol=0, atol=1e-12)
    if cell == "lstm" and not layer_norm:
        zero = layer.zero_state(ROWS, like=inputs)
        outputs, final = layer.packed(inputs, lengths, weight=weight)
        whole, last = reference.unrolled(inputs, zero, lengths=lengths)
        torch.testing.assert_close(final, last, rtol=0, atol=1e-12)
        for row, size in enumerate(lengths.tolist()):
            torch.testing.assert_close(outputs[row, :size], whole[row, :size], rtol=0, atol=1e-12)
    assert not torch.allclose(layer(inputs, state)[0], layer(inputs, state, weight=weight)[0])


@pytest.mark.parametrize("cell", CELLS)
def test_the_gradient_reaches_the_weights_that_are_kept_and_no_others(cell: str) -> None:
    layer, mask = dropping(cell)
    reference, inputs, state = masked(layer, mask), some_inputs(), some_state(cell, ROWS, WIDTH)
    layer(inputs, state, weight=layer.dropped(mask))[0].square().sum().backward()
    reference(inputs, state)[0].square().sum().backward()
    for (name, weight), other in zip(layer.named_parameters(), reference.parameters(), strict=True):
        expected = other.grad * mask if name == "kernel.weight_hh_l0" else other.grad
        torch.testing.assert_close(weight.grad, expected, rtol=0, atol=1e-9)
    assert not layer.kernel.weight_hh_l0.grad[mask == 0].any()


@pytest.mark.parametrize("cell", KERNELS)
@torch.no_grad()
def test_dropped_weights_are_read_by_the_fused_kernel(cell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, mask = dropping(cell)
    monkeypatch.delattr(Recurrence, "unrolled")
    monkeypatch.delattr(Recurrence, "step")
    before = layer(some_inputs(), some_state(cell, ROWS, WIDTH), weight=layer.dropped(mask))
    assert before[0].shape == (ROWS, SIZE, WIDTH)


@pytest.mark.parametrize("cell", KERNELS)
@torch.no_grad()
def test_a_pass_with_dropped_weights_leaves_the_layer_as_it_was(cell: str) -> None:
    layer, mask = dropping(cell)
    inputs, state = some_inputs(), some_state(cell, ROWS, WIDTH)
    before = layer(inputs, state)
    layer(inputs, state, weight=layer.dropped(mask))
    torch.testing.assert_close(layer(inputs, state), before, rtol=0, atol=0)


def test_a_mask_keeps_the_mean_of_the_weights() -> None:
    mask = Recurrence("lstm", input_width=3, width=100).weight_mask(dropout=0.2)
    assert mask.shape == (400, 100)
    assert mask.unique().tolist() == pytest.approx([0, 1 / 0.8], rel=1e-5)
    assert mask.mean().item() == pytest.approx(1, abs=0.02)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own, where it imports its compiler
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # which it asks for of every tensor
def test_a_compiled_layer_drops_the_same() -> None:
    layer, mask = dropping("lstm")
    inputs, state = some_inputs(), some_state("lstm", ROWS, WIDTH)
    found = []
    for call in (layer, torch.compile(layer, backend="aot_eager", dynamic=False)):
        outputs, _ = call(inputs, state, weight=layer.dropped(mask))
        found.append((outputs, torch.autograd.grad(outputs.square().sum(), list(layer.parameters()))))
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=1e-12)
