"""The random stream of a text depends on seed, line and part, and on nothing else."""

from itertools import product

import pytest

from calque.engine.sampling_seeds import Place, streams

PLACES = [Place(0), Place(1), Place(1, 1), Place(1, 2), Place(2), Place(3)]


def test_the_neighbours_do_not_change_a_stream() -> None:
    whole = streams(PLACES, seed=3).tolist()
    for cut in range(1, len(PLACES)):
        assert streams(PLACES[cut:], seed=3).tolist() == whole[cut:]


@pytest.mark.parametrize("large", [3_000_000_000, 2**63 - 1])
def test_seeds_lines_and_parts_have_distinct_streams(large: int) -> None:
    places = [Place(line, part) for line, part in product((0, 1, 2, 1 << 40), range(3))]
    numbers = [number for seed in (0, 1, 2**32, large) for number in streams(places, seed=seed).tolist()]
    assert len(set(numbers)) == 4 * len(places)
