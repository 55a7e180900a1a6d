"""Batch sizes: every pair fits one, few are needed, and the search comes near the best."""

import time
from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from calque.data.buckets import Histogram, Size, boundaries, find_sizes


def histogram(counts: np.ndarray) -> Histogram:
    return Histogram(np.arange(1, counts.shape[0] + 1), np.arange(1, counts.shape[1] + 1), counts)


def cost(widths: list[tuple[int, int]], table: np.ndarray, *, budget: int) -> float:
    """Plainly: each pair in the cheapest size that holds it, and half a batch lost for each size."""
    total = len(widths) * budget / 2
    for (i, j), count in np.ndenumerate(table):
        if count:
            fitting = [source + target for source, target in widths if source > i and target > j]
            total += count * min(fitting, default=np.inf)
    return total


tables = st.lists(st.lists(st.integers(0, 60), min_size=4, max_size=4), min_size=3, max_size=3).map(np.array)


@settings(deadline=None)
@given(tables, st.integers(1, 4))
def test_every_pair_fits_and_the_cost_is_near_the_least(table, limit):
    widths = [size.widths for size in find_sizes(histogram(table), budget=32, limit=limit)]
    if not table.any():
        assert widths == []
        return
    corners = [(i, j) for i in range(1, 4) for j in range(1, 5)]
    least = min(
        cost(list(chosen), table, budget=32) for count in range(1, limit + 1) for chosen in combinations(corners, count)
    )
    assert len(widths) <= limit
    assert cost(widths, table, budget=32) <= 1.25 * least


def test_rows_fill_the_budget_in_eights():
    counts = np.zeros((60, 60))
    counts[9, 9] = counts[59, 59] = 1000
    assert find_sizes(histogram(counts), budget=1000, limit=2) == (Size(48, (10, 10)), Size(8, (60, 60)))
    assert find_sizes(histogram(counts), budget=130, limit=2) == (Size(6, (10, 10)), Size(1, (60, 60)))


def test_boundaries_are_lengths_that_occur_and_hold_the_longest():
    counts = np.zeros(5000)
    counts[[3, 7, 4999]] = [5, 1, 1]
    assert boundaries(counts).tolist() == [3, 7, 4999]
    wide = boundaries(np.ones(5000))
    assert len(wide) <= 48
    assert wide[-1] == 4999


def test_a_wide_table_is_searched_in_time():
    generator = np.random.default_rng(0)
    table = generator.integers(0, 1000, (48, 48)).astype(float)
    before = time.process_time()
    find_sizes(histogram(table), budget=4096, limit=16)
    assert time.process_time() - before < 3  # about half a second; CI machines are slow
