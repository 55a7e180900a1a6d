"""Sinusoids against their formula, for all positions and data types; the other positions against theirs."""

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from calque.layers.positions import LearnedPositions, Sinusoids, distances, rotate, sinusoids

WIDTH = 6


def formula(position: int, column: int) -> float:
    """Vaswani 2017, §3.5, sines in the first half, cosines in the second."""
    half = WIDTH // 2
    angle = position * 10000 ** (-2 * (column % half) / WIDTH)
    return math.sin(angle) if column < half else math.cos(angle)


def test_sinusoids_are_their_formula() -> None:
    expected = [[formula(position, column) for column in range(WIDTH)] for position in range(40)]
    torch.testing.assert_close(sinusoids(40, width=WIDTH), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [4, 30, 1021, None])
def test_positions_are_the_same_inside_and_past_the_first_table(size: int | None, dtype: torch.dtype) -> None:
    positions = torch.tensor([[0, 3, 1], [(size or 900) - 1, 2, 2]])
    encoding = Sinusoids(WIDTH, ready=32)(positions, size=size, like=torch.zeros(1, dtype=dtype))
    assert encoding.dtype == dtype
    expected = sinusoids(size or 900, width=WIDTH)[positions].to(dtype)
    torch.testing.assert_close(encoding, expected, rtol=0, atol=1e-2 if dtype == torch.bfloat16 else 3e-7)


def test_far_positions_are_as_exact_as_near_ones() -> None:
    """p·r in float32 would be wrong by 0.03 at the last position."""
    positions = torch.tensor([0, 1023, 1024, 1025, 99_999, 524_287, 1_048_575])
    encoding = Sinusoids(WIDTH)(positions, size=None, like=torch.zeros(1))
    expected = [[formula(position, column) for column in range(WIDTH)] for position in positions.tolist()]
    torch.testing.assert_close(encoding, torch.tensor(expected), rtol=0, atol=3e-7)


class NoDoubles(TorchDispatchMode):
    """A device without float64, like Apple's."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        assert not isinstance(result, torch.Tensor) or result.dtype != torch.float64, func
        return result


@pytest.mark.parametrize("size", [40, 4000, None])
def test_no_float64_is_needed_to_look_up_positions(size: int | None) -> None:
    layer, like = Sinusoids(WIDTH), torch.zeros(1)
    with NoDoubles():
        layer(torch.tensor([[3, 39]]), size=size, like=like)
    with pytest.raises(AssertionError), NoDoubles():
        sinusoids(4, width=WIDTH)


def test_double_precision_is_kept() -> None:
    encoding = Sinusoids(WIDTH)(torch.tensor([5]), size=6, like=torch.zeros(1, dtype=torch.float64))
    assert torch.equal(encoding[0], sinusoids(6, width=WIDTH)[5])


def test_the_table_is_not_saved() -> None:
    assert Sinusoids(WIDTH).state_dict() == {}


def test_learned_positions_beyond_the_table_share_the_last_one() -> None:
    learned = LearnedPositions(WIDTH, maximum=3)
    vectors = learned(torch.tensor([[0, 2, 3, 90]]), size=91, like=torch.zeros(1))
    assert torch.equal(vectors[0], learned.weight[[0, 2, 2, 2]])


def test_rotated_products_depend_on_the_distance_alone_and_keep_lengths() -> None:
    """Su 2021, eq. 11: the product of a query and a key depends on their distance only."""
    query, key = torch.randn(2, 1, 3, 1, WIDTH, dtype=torch.float64)
    waves = sinusoids(50, width=WIDTH)[None]

    def product(query_position: int, key_position: int) -> torch.Tensor:
        return (rotate(query, waves[:, [query_position]]) * rotate(key, waves[:, [key_position]])).sum(-1)

    torch.testing.assert_close(product(3, 1), product(49, 47), rtol=0, atol=1e-12)
    assert not torch.allclose(product(3, 1), product(3, 2))
    rotated = rotate(query, waves[:, [31]])
    torch.testing.assert_close(rotated.norm(dim=-1), query.norm(dim=-1), rtol=0, atol=1e-12)
    assert torch.equal(rotate(query, waves[:, [0]]), query)


def test_distances_are_from_the_last_positions() -> None:
    assert distances(2, keys=4, device=torch.device("cpu")).tolist() == [[-2, -1, 0, 1], [-3, -2, -1, 0]]
