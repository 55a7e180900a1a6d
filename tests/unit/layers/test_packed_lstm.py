"""The packed LSTM against the same layer step by step, whose gradient autograd computes, and PyTorch's own kernel."""

import pytest
import torch
from torch import Tensor

from calque.layers import recurrent
from calque.layers.arithmetic import use_arithmetic
from calque.layers.packed_lstm import packed_lstm, packing
from calque.layers.recurrent import Recurrence
from calque.tensors import reverse_within

ROWS, SIZE, ENTERING, WIDTH = 5, 7, 3, 4
LENGTHS = {
    "different": torch.tensor([3, 7, 1, 7, 2]),
    "equal": torch.full((ROWS,), SIZE),
    "single": torch.ones(ROWS, dtype=torch.long),
    "shorter than the padding": torch.tensor([2, 4, 4, 1, 3]),
}
lengths_of_rows = pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())


def layer_and_inputs(dtype: torch.dtype = torch.float64) -> tuple[Recurrence, Tensor]:
    layer = Recurrence("lstm", input_width=ENTERING, width=WIDTH).to(dtype).train()
    return layer, torch.randn(ROWS, SIZE, ENTERING, dtype=dtype, requires_grad=True)


def results(layer: Recurrence, states: tuple[Tensor, tuple[Tensor, ...]], inputs: Tensor) -> list[Tensor]:
    """Outputs, final states, and the gradients of a function of all of them."""
    outputs, final = states
    torch.manual_seed(3)
    total = sum((part * torch.randn_like(part)).sum() for part in (outputs.square(), *final))
    assert isinstance(total, Tensor)
    return [outputs, *final, *torch.autograd.grad(total, [inputs, *layer.parameters()])]


def step_by_step(
    layer: Recurrence, inputs: Tensor, lengths: Tensor, *, backward: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The clear version; outputs at padding are cleared."""
    ordered = reverse_within(inputs, lengths) if backward else inputs
    outputs, final = layer.unrolled(ordered, layer.zero_state(ROWS, like=inputs), lengths=lengths)
    outputs = reverse_within(outputs, lengths) if backward else outputs
    return outputs.masked_fill((torch.arange(SIZE) >= lengths[:, None])[..., None], 0), final


@lengths_of_rows
@pytest.mark.parametrize("backward", [False, True])
def test_it_equals_the_layer_step_by_step_and_so_do_its_gradients(lengths: Tensor, backward: bool) -> None:
    layer, inputs = layer_and_inputs()
    packed = results(layer, layer.packed(inputs, lengths, backward=backward), inputs)
    clear = results(layer, step_by_step(layer, inputs, lengths, backward=backward), inputs)
    torch.testing.assert_close(packed, clear, rtol=1e-10, atol=1e-10)


@lengths_of_rows
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_it_equals_pytorchs_kernel(lengths: Tensor, backward: bool, dtype: torch.dtype) -> None:
    layer, inputs = layer_and_inputs(dtype)
    packed = results(layer, layer.packed(inputs, lengths, backward=backward), inputs)
    with use_arithmetic(1):
        library = results(layer, layer.packed(inputs, lengths, backward=backward), inputs)
    near = 1e-10 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(packed, library, rtol=near, atol=near)


def test_dropped_weights_replace_the_layers_own() -> None:
    layer, inputs = layer_and_inputs()
    mask = layer.weight_mask(dropout=0.5)
    found = []
    for version in (1, 2):
        with use_arithmetic(1 if version == 1 else 2):
            states = layer.packed(inputs, LENGTHS["different"], weight=layer.dropped(mask))
            found.append(results(layer, states, inputs))
    torch.testing.assert_close(found[1], found[0], rtol=1e-10, atol=1e-10)


def test_padding_is_not_read() -> None:
    layer, inputs = layer_and_inputs()
    lengths = LENGTHS["different"]
    spoilt = inputs.detach().clone()
    spoilt[torch.arange(SIZE) >= lengths[:, None]] = torch.nan
    torch.testing.assert_close(layer.packed(spoilt, lengths), layer.packed(inputs, lengths), rtol=0, atol=0)


def test_low_precision_keeps_its_state_in_float32() -> None:
    layer, inputs = layer_and_inputs(torch.float32)
    expected = results(layer, layer.packed(inputs, LENGTHS["different"]), inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states = layer.packed(inputs, LENGTHS["different"])
        assert states[1][1].dtype == torch.float32
        low = results(layer, states, inputs)
    for one, other in zip(low, expected, strict=True):
        assert 0 < (one.float() - other).norm() < 0.03 * other.norm()


def test_a_packing_lists_the_tokens_step_by_step_longest_row_first() -> None:
    lengths = torch.tensor([2, 3, 1])
    assert packing(lengths, size=4).places.tolist() == [4, 0, 8, 5, 1, 6]
    assert packing(lengths, size=4).sizes == (3, 2, 1)
    assert packing(lengths, size=4).last.tolist() == [4, 5, 2]
    assert packing(lengths, size=4, backward=True).places.tolist() == [6, 1, 8, 5, 0, 4]


def test_evaluation_earlier_runs_and_compiled_layers_use_pytorchs_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("used")

    monkeypatch.setattr(recurrent, "packed_lstm", refuse)
    layer, inputs = layer_and_inputs()
    lengths = LENGTHS["different"]
    with pytest.raises(AssertionError, match="used"):
        layer.packed(inputs, lengths)
    with use_arithmetic(1):
        layer.packed(inputs, lengths)
    with torch.no_grad():
        layer.packed(inputs, lengths)
    layer.eval().packed(inputs, lengths)


def test_nothing_is_cleared_at_every_step() -> None:
    """The reason for it: PyTorch's kernel clears a tensor of all tokens for each step of its backward pass."""
    layer, inputs = layer_and_inputs()
    weights = layer.kernel.all_weights[0]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        states = packed_lstm(inputs, LENGTHS["equal"], weights=(weights[0], weights[1]), bias=weights[2] + weights[3])
        states.hidden.sum().backward()
    assert not [event.key for event in profile.key_averages() if event.key == "aten::slice_backward"]
