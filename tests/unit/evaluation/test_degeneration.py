"""Signs of degenerate translations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calque.evaluation.degeneration import has_loop, oddities


def has_loop_by_definition(tokens: list[int]) -> bool:
    return any(
        tokens[start : start + size] * 4 == tokens[start : start + 4 * size]
        for size in range(1, 9)
        for start in range(len(tokens) - 4 * size + 1)
    )


@given(st.lists(st.integers(0, 2), max_size=40))
def test_a_loop_is_an_n_gram_repeated_four_times_in_a_row(tokens: list[int]) -> None:
    assert has_loop(tokens) == has_loop_by_definition(tokens)


@given(st.lists(st.integers(0, 99), min_size=1, max_size=8), st.integers(0, 5))
def test_loops_of_longer_n_grams_are_found(unit: list[int], before: int) -> None:
    assert has_loop([*range(100, 100 + before), *unit * 4])


@pytest.mark.parametrize(
    ("source", "target", "signs"),
    [(20, 20, ()), (20, 5, ()), (20, 4, ("short",)), (5, 20, ()), (5, 21, ("long",)), (1, 8, ()), (40, 0, ("short",))],
)
def test_implausible_lengths(source: int, target: int, signs: tuple[str, ...]) -> None:
    assert oddities(range(source), range(target)) == signs
