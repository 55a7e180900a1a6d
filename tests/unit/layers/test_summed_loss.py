"""The summed cross-entropy in chunks against the losses of all positions at once, whose gradient autograd computes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.laws.models import loud
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from calque.layers import summed_loss
from calque.layers.arithmetic import use_arithmetic
from calque.layers.output import FullOutput
from calque.layers.sampled import SampledOutput, SampledOutputConfig
from calque.layers.summed_loss import can_sum_in_chunks, summed_cross_entropy

VOCABULARY, WIDTH, POSITIONS = 11, 6, 29
IGNORED = 0
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5}


def layer_and_rows(dtype: torch.dtype = torch.float64) -> tuple[FullOutput, Tensor, Tensor]:
    """A layer, hidden vectors and targets, some of which are ignored."""
    layer = loud(FullOutput(VOCABULARY, width=WIDTH)).to(dtype)
    hidden = (3 * torch.randn(POSITIONS, WIDTH)).to(dtype).requires_grad_()
    return layer, hidden, torch.randint(VOCABULARY, (POSITIONS,))


def gradients(total: Tensor, layer: FullOutput, hidden: Tensor) -> list[Tensor]:
    """The gradients of a multiple of the loss, as training divides it by the number of tokens."""
    return list(torch.autograd.grad(total / 7, [hidden, layer.weight, layer.bias]))


@pytest.fixture(params=[1, 50, 1 << 20], ids=lambda size: f"chunk {size}")
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of one position, of some, and of all."""
    monkeypatch.setattr(summed_loss, "CHUNK", request.param)


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_it_equals_the_sum_of_the_losses_and_so_do_its_gradients(dtype: torch.dtype, smoothing: float) -> None:
    layer, hidden, targets = layer_and_rows(dtype)
    assert can_sum_in_chunks(hidden, layer.weight)
    total = layer.total_loss(hidden, targets, smoothing=smoothing, ignored=IGNORED)
    clear = layer.loss(hidden, targets, smoothing=smoothing, ignored=IGNORED).sum()
    assert total.dtype == clear.dtype
    near = {"rtol": TOLERANCES[dtype], "atol": TOLERANCES[dtype]}
    torch.testing.assert_close(total, clear, **near)
    for one, other in zip(gradients(total, layer, hidden), gradients(clear, layer, hidden), strict=True):
        torch.testing.assert_close(one, other, **near)


def test_its_gradients_are_the_slopes_of_small_differences() -> None:
    layer, hidden, targets = layer_and_rows()

    def total(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return summed_cross_entropy(hidden, weight, bias, targets, smoothing=0.1, ignored=IGNORED)

    assert torch.autograd.gradcheck(total, (hidden, layer.weight, layer.bias))


def test_extreme_logits_have_the_loss_and_gradients_of_the_clear_version() -> None:
    layer, hidden, targets = layer_and_rows()
    far = (1e4 * hidden.detach()).requires_grad_()
    total = layer.total_loss(far, targets, smoothing=0.1, ignored=IGNORED)
    clear = layer.loss(far, targets, smoothing=0.1, ignored=IGNORED).sum()
    torch.testing.assert_close(total, clear)
    torch.testing.assert_close(gradients(total, layer, far), gradients(clear, layer, far))


def test_a_loss_that_is_not_finite_stays_so() -> None:
    layer, hidden, targets = layer_and_rows()
    broken = hidden.detach().clone()
    broken[0, 0] = torch.inf
    total = layer.total_loss(broken, targets.clamp(min=1), smoothing=0.1, ignored=IGNORED)
    assert not total.isfinite()


def test_without_positions_the_loss_and_its_gradients_are_zero() -> None:
    layer, hidden, _ = layer_and_rows()
    for rows in (hidden[:0], hidden):
        targets = torch.full((len(rows),), IGNORED)
        total = layer.total_loss(rows, targets, smoothing=0.1, ignored=IGNORED)
        assert total == 0
        assert all(not gradient.any() for gradient in gradients(total, layer, hidden))


def test_ignored_positions_cost_nothing() -> None:
    """The logits that are computed are those of the other positions alone."""
    layer, hidden, targets = layer_and_rows()
    targets = targets.clamp(min=1)
    many, ignored = hidden.repeat(10, 1), torch.full((10 * POSITIONS,), IGNORED)
    alone = _logits_rows(lambda: layer.total_loss(hidden, targets, smoothing=0.1, ignored=IGNORED))
    padded = _logits_rows(
        lambda: layer.total_loss(
            torch.cat([hidden, many]), torch.cat([targets, ignored]), smoothing=0.1, ignored=IGNORED
        )
    )
    assert alone == padded
    assert set(alone) == {POSITIONS}


def test_logits_of_all_positions_are_never_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summed_loss, "CHUNK", 4 * VOCABULARY)
    layer, hidden, targets = layer_and_rows()
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        rows = _logits_rows(lambda: layer.total_loss(hidden, targets, smoothing=0.1, ignored=IGNORED))
    assert max(rows) == 4
    assert max(tensor.numel() for tensor in kept) == max(POSITIONS * WIDTH, VOCABULARY * WIDTH)


def test_low_precision_normalises_in_float32() -> None:
    layer, hidden, targets = layer_and_rows(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total = layer.total_loss(hidden, targets, smoothing=0.1, ignored=IGNORED)
        clear = layer.loss(hidden, targets, smoothing=0.1, ignored=IGNORED).sum()
    assert total.dtype == clear.dtype == torch.float32
    torch.testing.assert_close(total, clear, rtol=1e-5, atol=1e-5)
    for one, other in zip(gradients(total, layer, hidden), gradients(clear, layer, hidden), strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() < 0.02 * other.norm()


def test_the_clear_version_is_used_where_nothing_is_gained_or_the_run_is_older() -> None:
    layer, hidden, _ = layer_and_rows()
    assert can_sum_in_chunks(hidden, layer.weight)
    with use_arithmetic(1):
        assert not can_sum_in_chunks(hidden, layer.weight)
    with torch.no_grad():
        assert not can_sum_in_chunks(hidden, layer.weight)
    with torch.autocast("cpu", dtype=torch.float16):
        assert not can_sum_in_chunks(hidden, layer.weight)
    assert not can_sum_in_chunks(hidden.to("meta"), layer.weight)


def test_evaluation_has_the_same_bytes_as_the_sum_of_the_losses() -> None:
    layer, hidden, targets = layer_and_rows(torch.float32)
    with torch.inference_mode():
        total = layer.total_loss(hidden, targets, smoothing=0.0, ignored=IGNORED)
        assert torch.equal(total, layer.loss(hidden, targets, smoothing=0.0, ignored=IGNORED).sum())


def test_a_sampled_softmax_samples_in_training() -> None:
    layer = loud(SampledOutput(SampledOutputConfig(samples=4), vocabulary_size=VOCABULARY, width=WIDTH)).train()
    hidden, targets = torch.randn(5, WIDTH, dtype=torch.float64, requires_grad=True), torch.randint(VOCABULARY, (5,))
    totals = []
    for method in (layer.total_loss, lambda *rows, **options: layer.loss(*rows, **options).sum()):
        torch.manual_seed(3)
        totals.append(method(hidden, targets, smoothing=0.0, ignored=IGNORED))
    assert torch.equal(*totals)


def _logits_rows(work: Callable[[], object]) -> list[int]:
    """The number of positions of every tensor of logits or probabilities that `work` computes."""
    with _LogitsRows() as watch:
        work()
    return watch.rows


class _LogitsRows(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[int] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.dim() == 2 and result.shape[1] == VOCABULARY != result.shape[0]:
            self.rows += [result.shape[0]] if result.is_contiguous() else []  # the transposed weight is not
        return result
