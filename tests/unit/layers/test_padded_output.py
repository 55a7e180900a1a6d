"""The loss of a padded vocabulary, for a GPU, against the clear version: the losses of all positions, summed."""

from collections.abc import Callable

import pytest
import torch
from tests.laws.models import loud
from torch import Tensor

from calque.layers.arithmetic import use_arithmetic
from calque.layers.output import FullOutput
from calque.layers.padded_output import (
    MULTIPLE,
    graph_cross_entropy,
    is_padded,
    padded_cross_entropy,
    padded_logits,
)

WIDTH, POSITIONS, IGNORED = 6, 29, 0
Loss = Callable[..., Tensor]


def layer_and_rows(vocabulary: int, dtype: torch.dtype) -> tuple[FullOutput, Tensor, Tensor]:
    layer = loud(FullOutput(vocabulary, width=WIDTH)).to(dtype)
    hidden = (3 * torch.randn(POSITIONS, WIDTH)).to(dtype).requires_grad_()
    return layer, hidden, torch.randint(vocabulary, (POSITIONS,))


def gradients(total: Tensor, layer: FullOutput, hidden: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(total / 7, [hidden, layer.weight, layer.bias]))


@pytest.mark.parametrize("vocabulary", [11, MULTIPLE - 1, MULTIPLE, MULTIPLE + 1])
def test_padding_only_adds_columns(vocabulary: int) -> None:
    layer, hidden, _ = layer_and_rows(vocabulary, torch.float64)
    logits = padded_logits(hidden, layer.weight, layer.bias)
    assert logits.shape[1] % MULTIPLE == 0 and logits.shape[1] - vocabulary < MULTIPLE
    torch.testing.assert_close(logits[:, :vocabulary], layer.logits(hidden), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("loss", [padded_cross_entropy, graph_cross_entropy])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("vocabulary", [11, MULTIPLE, MULTIPLE + 5])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5), (torch.bfloat16, 0.02)], ids=str
)
def test_it_equals_the_sum_of_the_losses_and_so_do_its_gradients(
    dtype: torch.dtype, tolerance: float, vocabulary: int, smoothing: float, loss: Loss
) -> None:
    """In bfloat16, the tolerance is that of a few roundings of 2⁻⁸, relative to the largest value."""
    layer, hidden, targets = layer_and_rows(vocabulary, dtype)
    total = loss(hidden, layer.weight, layer.bias, targets, smoothing=smoothing, ignored=IGNORED)
    clear = layer.loss(hidden, targets, smoothing=smoothing, ignored=IGNORED).sum()
    assert total.dtype == clear.dtype
    pairs = [(total, clear), *zip(gradients(total, layer, hidden), gradients(clear, layer, hidden), strict=True)]
    for value, expected in pairs:
        torch.testing.assert_close(value, expected, rtol=0, atol=tolerance * expected.abs().max().item())


@pytest.mark.parametrize("loss", [padded_cross_entropy, graph_cross_entropy])
def test_extreme_logits_have_the_loss_and_gradients_of_the_clear_version(loss: Loss) -> None:
    layer, hidden, targets = layer_and_rows(11, torch.float64)
    far = (1e4 * hidden.detach()).requires_grad_()
    total = loss(far, layer.weight, layer.bias, targets, smoothing=0.1, ignored=IGNORED)
    clear = layer.loss(far, targets, smoothing=0.1, ignored=IGNORED).sum()
    torch.testing.assert_close(total, clear)
    torch.testing.assert_close(gradients(total, layer, far), gradients(clear, layer, far))


@pytest.mark.parametrize("loss", [padded_cross_entropy, graph_cross_entropy])
def test_a_loss_that_is_not_finite_stays_so(loss: Loss) -> None:
    layer, hidden, targets = layer_and_rows(11, torch.float64)
    broken = hidden.detach().clone()
    broken[0, 0] = torch.inf
    total = loss(broken, layer.weight, layer.bias, targets.clamp(min=1), smoothing=0.1, ignored=IGNORED)
    assert not total.isfinite()


def test_positions_that_are_ignored_have_no_gradient() -> None:
    layer, hidden, targets = layer_and_rows(11, torch.float64)
    targets[::2] = IGNORED
    total = graph_cross_entropy(hidden, layer.weight, layer.bias, targets, smoothing=0.1, ignored=IGNORED)
    of_hidden, *_ = gradients(total, layer, hidden)
    assert not of_hidden[::2].any()
    assert of_hidden[1::2][targets[1::2] != IGNORED].any(dim=1).all()


def test_only_training_on_a_gpu_is_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is, the layer calls `padded_loss`, which a compiler may replace."""
    layer, hidden, targets = layer_and_rows(11, torch.float32)
    assert not is_padded(hidden, layer.weight)
    on_gpu = torch.empty(1, device="meta", requires_grad=True)
    monkeypatch.setattr(torch.Tensor, "device", property(lambda _: torch.device("cuda")))
    assert is_padded(on_gpu, on_gpu)
    assert not is_padded(on_gpu.detach(), on_gpu.detach())
    with use_arithmetic(2):
        assert not is_padded(on_gpu, on_gpu)
    with torch.no_grad():
        assert not is_padded(on_gpu, on_gpu)
    monkeypatch.undo()
    monkeypatch.setattr("calque.layers.output.can_sum_in_chunks", lambda *_: False)
    monkeypatch.setattr("calque.layers.output.is_padded", lambda *_: True)
    layer.padded_loss = lambda *_arguments, smoothing, ignored: torch.tensor(smoothing + ignored)
    assert layer.total_loss(hidden, targets, smoothing=0.5, ignored=2) == 2.5
