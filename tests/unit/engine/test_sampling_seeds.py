"""The random stream of a request depends on seed, line and part, and on nothing else."""

from itertools import product

import pytest

from calque.engine import Request
from calque.engine.sampling_seeds import NumberedRequest, number_requests, streams

REQUESTS = [Request("a"), Request("b"), Request("b", part=1), Request("b", part=2), Request("c"), Request("d")]


def test_parts_have_their_lines_number() -> None:
    assert [numbered.line for numbered in number_requests(REQUESTS, first=5)] == [5, 6, 6, 6, 7, 8]


def test_the_start_of_a_window_does_not_change_a_stream() -> None:
    whole = streams(list(number_requests(REQUESTS, first=0)), seed=3).tolist()
    for cut, line in ((1, 1), (4, 2), (5, 3)):
        later = streams(list(number_requests(REQUESTS[cut:], first=line)), seed=3).tolist()
        assert later == whole[cut:]


@pytest.mark.parametrize("large", [3_000_000_000, 2**63 - 1])
def test_seeds_lines_and_parts_have_distinct_streams(large: int) -> None:
    window = [NumberedRequest(Request("", part=part), line) for line, part in product((0, 1, 2, 1 << 40), range(3))]
    numbers = [number for seed in (0, 1, 2**32, large) for number in streams(window, seed=seed).tolist()]
    assert len(set(numbers)) == 4 * len(window)
