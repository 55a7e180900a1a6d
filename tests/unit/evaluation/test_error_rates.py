"""Error rates, against jiwer where it is installed and against a plain recursion."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calque.errors import DataError
from calque.evaluation.error_rates import edit_distance, error_rates

sequences = st.lists(st.sampled_from("abc"), max_size=7)


def recursive_distance(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    """The definition of the edit distance, without a table."""

    @cache
    def distance(left: int, right: int) -> int:
        if not left or not right:
            return left + right
        substituted = distance(left - 1, right - 1) + (first[left - 1] != second[right - 1])
        return min(substituted, distance(left - 1, right) + 1, distance(left, right - 1) + 1)

    return distance(len(first), len(second))


@given(sequences, sequences)
def test_the_distance_is_that_of_its_definition(first: list[str], second: list[str]) -> None:
    assert edit_distance(first, second) == recursive_distance(tuple(first), tuple(second))


def test_rates_count_edits_per_reference_symbol_and_wrong_sequences() -> None:
    rates = error_rates([["a", "b"], ["c"]], [[["a", "b"]], [["c", "d"]]])
    assert rates == pytest.approx((100 * 1 / 4, 50.0))


@given(st.lists(st.tuples(sequences, st.lists(sequences, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_the_closest_reference_counts(rows: list[tuple[list[str], list[list[str]]]]) -> None:
    rates = error_rates([row for row, _ in rows], [choices for _, choices in rows])
    closest = [
        min(choices, key=lambda choice: (recursive_distance(tuple(row), tuple(choice)), -len(choice)))
        for row, choices in rows
    ]
    assert rates == error_rates([row for row, _ in rows], [[choice] for choice in closest])
    assert rates.sequences == pytest.approx(100 * sum(row not in choices for row, choices in rows) / len(rows))


def test_unequal_numbers_and_missing_references_are_rejected() -> None:
    with pytest.raises(DataError, match="2 outputs but references for 1"):
        error_rates([["a"], ["b"]], [[["a"]]])
    with pytest.raises(DataError, match="at least one reference"):
        error_rates([["a"]], [[]])
