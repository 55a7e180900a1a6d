"""Batches made ahead: in their order, by threads that end with their reader; rows in nearly equal slices."""

import threading
import time

import numpy as np
import pytest

from calque.data.batch import prefetch, row_slices


@pytest.mark.parametrize("rows", range(1, 12))
@pytest.mark.parametrize("parts", range(1, 14))
def test_slices_hold_every_row_once_and_are_nearly_equal(rows, parts):
    slices = row_slices(rows, parts=parts)
    assert [row for at in slices for row in range(rows)[at]] == [*range(rows)]
    assert len(slices) == min(rows, parts)
    sizes = [at.stop - at.start for at in slices]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_the_order_is_kept_however_long_each_takes(workers):
    waits = np.random.default_rng(workers).uniform(0, 0.004, 60)

    def slow(number):
        time.sleep(waits[number])
        return number, threading.current_thread()

    results = [*prefetch(range(60), make=slow, workers=workers, ahead=5)]
    assert [number for number, _ in results] == [*range(60)]
    assert len({thread for _, thread in results}) == workers


def test_without_workers_everything_is_made_by_the_reader_when_it_asks():
    items = prefetch(range(9), make=lambda _: threading.current_thread(), workers=0, ahead=4)
    assert next(items) is threading.current_thread()
    results = []
    next(prefetch(range(9), make=results.append, workers=0, ahead=4))
    assert results == [0]


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_errors_of_the_items_are_raised_to_the_reader_in_their_place(workers):
    def broken():
        yield "first"
        yield "second"
        raise ValueError("the third one")

    items = prefetch(broken(), make=str, workers=workers, ahead=2)
    assert [next(items), next(items)] == ["first", "second"]
    with pytest.raises(ValueError, match="the third one"):
        next(items)


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_errors_of_the_making_are_raised_to_the_reader_in_their_place(workers):
    items = prefetch([4, 2, 0, 1], make=lambda number: 8 // number, workers=workers, ahead=4)
    assert [next(items), next(items)] == [2, 4]
    with pytest.raises(ZeroDivisionError):
        next(items)


@pytest.mark.parametrize("workers", [1, 4])
def test_a_reader_that_stops_ends_the_threads(workers):
    before = threading.active_count()
    items = prefetch(iter(range(1000)), make=int, workers=workers, ahead=2)
    assert next(items) == 0
    items.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("workers", [1, 3])
def test_no_more_than_asked_is_made_ahead(workers):
    results = []
    items = prefetch(range(100), make=results.append, workers=workers, ahead=3)
    next(items)
    threading.Event().wait(0.3)
    assert len(results) <= 1 + 3
    items.close()
