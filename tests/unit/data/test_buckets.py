"""Static shapes: every pair fits one, few are needed, and the search comes near the best."""

import time
from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from calque.data.buckets import Histogram, Shape, boundaries, find_shapes


def histogram(counts: np.ndarray) -> Histogram:
    return Histogram(np.arange(1, counts.shape[0] + 1), np.arange(1, counts.shape[1] + 1), counts)


def cost(shapes: list[tuple[int, int]], table: np.ndarray, *, budget: int) -> float:
    """Plainly: each pair in the cheapest shape that holds it, and half a batch lost for each shape."""
    total = len(shapes) * budget / 2
    for (i, j), count in np.ndenumerate(table):
        if count:
            fitting = [source + target for source, target in shapes if source > i and target > j]
            total += count * min(fitting, default=np.inf)
    return total


tables = st.lists(st.lists(st.integers(0, 60), min_size=4, max_size=4), min_size=3, max_size=3).map(np.array)


@settings(deadline=None)
@given(tables, st.integers(1, 4))
def test_every_pair_fits_and_the_cost_is_near_the_least(table, limit):
    shapes = [(shape.source, shape.target) for shape in find_shapes(histogram(table), budget=32, limit=limit)]
    if not table.any():
        assert shapes == []
        return
    corners = [(i, j) for i in range(1, 4) for j in range(1, 5)]
    least = min(
        cost(list(chosen), table, budget=32) for size in range(1, limit + 1) for chosen in combinations(corners, size)
    )
    assert len(shapes) <= limit
    assert cost(shapes, table, budget=32) <= 1.25 * least


def test_rows_fill_the_budget_in_eights():
    counts = np.zeros((60, 60))
    counts[9, 9] = counts[59, 59] = 1000
    assert find_shapes(histogram(counts), budget=1000, limit=2) == (Shape(48, 10, 10), Shape(8, 60, 60))
    assert find_shapes(histogram(counts), budget=130, limit=2) == (Shape(6, 10, 10), Shape(1, 60, 60))


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
    find_shapes(histogram(table), budget=4096, limit=16)
    assert time.process_time() - before < 3  # about half a second; CI machines are slow
