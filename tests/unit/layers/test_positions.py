"""Sinusoids by their formula, however far and in whatever type they are asked for."""

import math

import pytest
import torch

from calque.layers.positions import Sinusoids, sinusoids

WIDTH = 6


def formula(place: int, column: int) -> float:
    """Vaswani 2017, §3.5, sines in the first half, cosines in the second."""
    half = WIDTH // 2
    angle = place * 10000 ** (-2 * (column % half) / WIDTH)
    return math.sin(angle) if column < half else math.cos(angle)


def test_sinusoids_are_their_formula() -> None:
    expected = [[formula(place, column) for column in range(WIDTH)] for place in range(40)]
    torch.testing.assert_close(sinusoids(40, width=WIDTH), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [4, 30])
def test_positions_are_the_same_inside_and_past_the_table(size: int, dtype: torch.dtype) -> None:
    positions = torch.tensor([[0, 3, 1], [size - 1, 2, 2]])
    found = Sinusoids(WIDTH, ready=8)(positions, size=size, like=torch.zeros(1, dtype=dtype))
    assert found.dtype == dtype
    torch.testing.assert_close(found, sinusoids(size, width=WIDTH)[positions].to(dtype), rtol=0, atol=1e-7)


def test_double_precision_is_kept() -> None:
    found = Sinusoids(WIDTH)(torch.tensor([5]), size=6, like=torch.zeros(1, dtype=torch.float64))
    assert torch.equal(found[0], sinusoids(6, width=WIDTH)[5])


def test_the_table_is_not_saved() -> None:
    assert Sinusoids(WIDTH).state_dict() == {}
