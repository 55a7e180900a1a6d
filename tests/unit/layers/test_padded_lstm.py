"""The LSTM that reads padding against the one that packs rows: states, final states and gradients."""

import pytest
import torch
from tests.laws.models import loud
from torch import Tensor

from calque.layers.padded_lstm import is_read_with_padding, padded_lstm
from calque.layers.recurrent import Recurrence
from calque.models import recurrent
from calque.models.recurrent import RecurrentEncoder, RecurrentEncoderConfig
from calque.tensors import Padded

LENGTHS = torch.tensor([5, 1, 3, 7, 7])
ROWS, SIZE, INPUTS, WIDTH = len(LENGTHS), 7, 4, 6


def layers(count: int, dtype: torch.dtype) -> list[Recurrence]:
    return [loud(Recurrence("lstm", input_width=INPUTS, width=WIDTH)).to(dtype) for _ in range(count)]


def outcome(outputs: list[Tensor], directions: list[Recurrence], inputs: Tensor) -> list[Tensor]:
    """The outputs and the gradients of their weighted sum."""
    torch.manual_seed(3)
    total = sum((output * torch.randn_like(output)).sum() for output in outputs)
    assert isinstance(total, Tensor)
    parameters = [parameter for layer in directions for parameter in layer.parameters()]
    return [*outputs, *torch.autograd.grad(total, [inputs, *parameters])]


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5), (torch.bfloat16, 0.05)], ids=str
)
def test_states_and_gradients_are_those_of_packed_rows(dtype: torch.dtype, tolerance: float, directions: int) -> None:
    torch.manual_seed(1)
    both = layers(directions, dtype)
    inputs = torch.randn(ROWS, SIZE, INPUTS, dtype=dtype, requires_grad=True)
    states = padded_lstm(inputs, LENGTHS, [layer.direction(None) for layer in both])
    padded = outcome([states.hidden, *(part for final in states.final for part in final)], both, inputs)
    results = [layer.packed(inputs, LENGTHS, backward=number == 1) for number, layer in enumerate(both)]
    hidden = torch.cat([outputs for outputs, _ in results], dim=-1)
    packed = outcome([hidden, *(part for _, final in results for part in final)], both, inputs)
    for value, expected in zip(padded, packed, strict=True):
        torch.testing.assert_close(value, expected, rtol=0, atol=tolerance * expected.abs().max().item())


def test_padding_changes_nothing_at_all() -> None:
    """Not a bit of any state or gradient, however wild the padding."""
    both = layers(2, torch.float32)
    results = []
    for wild in (0.0, 1e6):
        inputs = torch.full((ROWS, SIZE, INPUTS), wild)
        torch.manual_seed(1)
        for row, length in enumerate(LENGTHS.tolist()):
            inputs[row, :length] = torch.randn(length, INPUTS)
        inputs.requires_grad_()
        states = padded_lstm(inputs, LENGTHS, [layer.direction(None) for layer in both])
        results.append(outcome([states.hidden, *(part for final in states.final for part in final)], both, inputs))
    for value, expected in zip(*results, strict=True):
        assert torch.equal(value, expected)


@pytest.mark.parametrize("settings", [{}, {"bidirectional": False}, {"weight_dropout": 0.4}, {"reverse": True}])
def test_an_encoder_that_reads_padding_encodes_the_same(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RecurrentEncoderConfig.model_validate(
        {"width": 6, "embedding": 4, "layers": 2, "dropout": 0.0, **settings}
    )
    encoder = loud(RecurrentEncoder(config, vocabulary_size=9)).train()
    source = Padded(torch.randint(4, 9, (ROWS, SIZE)), LENGTHS)
    memories = []
    for is_reading in (True, False):
        monkeypatch.setattr(recurrent, "is_read_with_padding", lambda _, is_reading=is_reading: is_reading)
        torch.manual_seed(2)
        memories.append(encoder(source))
    for name in ("values", "mask", "inputs"):
        torch.testing.assert_close(getattr(memories[0], name), getattr(memories[1], name))
    torch.testing.assert_close(memories[0].final, memories[1].final)


@pytest.mark.parametrize("settings", [{"cell": "gru"}, {"variational": True}, {"layer_norm": True}])
def test_other_cells_are_left_to_the_other_ways(settings: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent, "is_read_with_padding", lambda _: True)
    monkeypatch.setattr(recurrent, "padded_lstm", lambda *_: pytest.fail("it is for plain LSTMs"))
    config = RecurrentEncoderConfig.model_validate({"width": 6, "embedding": 4, **settings})
    encoder = RecurrentEncoder(config, vocabulary_size=9).train()
    assert encoder(Padded(torch.randint(4, 9, (ROWS, SIZE)), LENGTHS)).values.shape == (ROWS, SIZE, 6)


def test_a_cpu_packs_rows() -> None:
    assert not is_read_with_padding(torch.empty(1))
