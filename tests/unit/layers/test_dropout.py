"""Dropout with masks from 16-bit numbers: its probabilities, its scale, and torch's own dropout as version 1."""

import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import calque
from calque.layers.arithmetic import use_arithmetic
from calque.layers.dropout import STEPS, Dropout, dropout, keep_mask, quantised, scaled_mask
from calque.layers.multihead import MultiHead

FAR = 6  # standard deviations that are not exceeded by chance
COUNT = 1 << 18


@pytest.fixture(autouse=True)
def _random() -> None:
    torch.manual_seed(torch.seed())  # another sample each time


def assert_share(values: torch.Tensor, probability: float) -> None:
    """Values that are true with this probability."""
    spread = math.sqrt(probability * (1 - probability) / values.numel())
    assert float(values.double().mean()) == pytest.approx(probability, abs=FAR * spread + 1e-12)


@pytest.mark.parametrize("probability", [1e-4, 0.1, 1 / 3, 0.5, 0.9, 0.9999])
def test_values_are_dropped_with_their_probability(probability: float) -> None:
    assert_share(dropout(torch.ones(COUNT), probability) == 0, quantised(probability) / STEPS)


@pytest.mark.parametrize("lane", range(4))
def test_each_of_the_four_numbers_in_64_bits_uses_all_of_its_bits(lane: int) -> None:
    """A 63-bit number would leave the highest bit of the last one zero."""
    for dropped in (STEPS // 4, STEPS // 2, 3 * STEPS // 4):
        assert_share(keep_mask(torch.empty(COUNT), dropped=dropped).view(-1, 4)[:, lane] == 0, dropped / STEPS)


def test_neighbours_are_independent() -> None:
    mask = dropout(torch.ones(COUNT), 0.5) == 0
    for distance in (1, 2, 3, 4):
        assert_share(mask[:-distance] & mask[distance:], 0.25)


@pytest.mark.parametrize("probability", [0.1, 0.25, 0.7])
def test_what_is_kept_is_scaled_by_the_probability_that_was_used(probability: float) -> None:
    values = torch.randn(1000, dtype=torch.float64)
    dropped = dropout(values, probability)
    kept = dropped != 0
    scale = 1 / (1 - round(probability * 65536) / 65536)
    torch.testing.assert_close(dropped[kept], values[kept] * scale, rtol=1e-15, atol=0)


def test_the_expectation_is_that_of_the_values() -> None:
    assert float(dropout(torch.ones(COUNT, dtype=torch.float64), 0.1).mean()) == pytest.approx(1, abs=FAR / 3 / 512)


def test_low_precision_rounds_the_result_and_not_the_scale() -> None:
    values = torch.randn(1000).bfloat16()
    dropped = dropout(values, 0.1)
    kept = dropped != 0
    expected = (values.double() * STEPS / (STEPS - quantised(0.1))).bfloat16()
    torch.testing.assert_close(dropped[kept], expected[kept], rtol=2**-7, atol=0)
    assert float((dropped[kept].double() / values[kept].double()).mean()) == pytest.approx(1 / 0.9, abs=1e-3)


def test_the_gradient_is_the_scaled_mask() -> None:
    values = torch.randn(7, 9, requires_grad=True)
    dropped = dropout(values, 0.4)
    (gradient,) = torch.autograd.grad(dropped.sum(), values)
    torch.testing.assert_close(gradient * values, dropped)
    assert gradient.unique().tolist() == pytest.approx([0, 1 / 0.6], rel=1e-4)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (5, 7), (2, 3, 1)])
def test_any_shape_can_be_dropped(shape: tuple[int, ...]) -> None:
    assert dropout(torch.ones(shape), 0.5).shape == shape
    assert scaled_mask(torch.ones(shape).double(), 0.5).dtype == torch.float64


def test_a_transposed_tensor_keeps_its_places() -> None:
    values = torch.arange(1.0, 13.0).view(3, 4).t()
    dropped = dropout(values, 0.5)
    assert torch.equal(dropped[dropped != 0], 2 * values[dropped != 0])


def test_the_same_seed_draws_the_same_mask() -> None:
    masks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(dropout(torch.ones(1000), 0.5))
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


def test_evaluation_and_a_probability_of_zero_change_nothing() -> None:
    values = torch.ones(5)
    assert dropout(values, 0.5, False) is values
    assert dropout(values, 0.0) is values
    assert Dropout(0.5).eval()(values) is values
    assert Dropout(0.999)(values).count_nonzero() < 5


def test_probabilities_are_rounded_and_stay_below_one() -> None:
    assert [quantised(probability) for probability in (0.1, 0.5, 1e-6, 1 - 1e-9)] == [6554, 32768, 0, 65535]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_version_1_is_torchs_own_dropout_to_the_byte(dtype: torch.dtype) -> None:
    values = torch.randn(50, 3).to(dtype)
    torch.manual_seed(5)
    expected = F.dropout(values, 0.3)
    torch.manual_seed(5)
    with use_arithmetic(1):
        assert torch.equal(dropout(values, 0.3), expected)
    torch.manual_seed(5)
    assert not torch.equal(dropout(values, 0.3), expected)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_with_dropout_has_the_expectation_of_attention_without(causal: bool) -> None:
    layer = MultiHead(6, memory_width=6, heads=2, dropout=0.3).double()
    inputs, mask = torch.randn(3, 5, 6, dtype=torch.float64), None if causal else torch.ones(3, 1, 1, 5).bool()
    queries, memory = layer.queries(inputs), layer.remember(inputs)
    expected = layer.eval().attend(queries, memory, mask, causal=causal)
    layer.train()
    drawn = torch.stack([layer.attend(queries, memory, mask, causal=causal) for _ in range(4000)])
    spread = drawn.std(dim=0) / 4000**0.5
    assert ((drawn.mean(dim=0) - expected).abs() <= FAR * spread + 1e-12).all()
    assert drawn.std(dim=0).max() > 0.01


def test_attention_draws_its_masks_here_in_version_2_and_in_torch_in_version_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer = MultiHead(6, memory_width=6, heads=2, dropout=0.3)
    inputs = torch.randn(3, 5, 6)

    def attend() -> torch.Tensor:
        torch.manual_seed(2)
        return layer(inputs, layer.remember(inputs), None)

    with use_arithmetic(1):
        earlier = attend()
    queries, memory = layer.queries(inputs), layer.remember(inputs)
    torch.manual_seed(2)
    heads = F.scaled_dot_product_attention(queries, *memory, dropout_p=0.3)
    assert torch.equal(earlier, layer.out(heads.transpose(1, 2).flatten(2)))
    monkeypatch.setattr(F, "scaled_dot_product_attention", None)
    assert not torch.equal(attend(), earlier)


def test_no_other_dropout_is_used_anywhere() -> None:
    folder = Path(calque.__file__).parent
    users = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if any(name in path.read_text(encoding="utf-8") for name in ("F.dropout", "nn.Dropout", "bernoulli"))
    }
    assert users == {"layers/dropout.py"}
