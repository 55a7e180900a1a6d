"""Which numbers of threads are tried, and which one is recommended."""

import pytest
import torch

from calque.training.thread_tuning import Sample, best_count, measure_threads, thread_counts, usable_cores

SMALL = Sample(vocabulary=30, width=8, layers=1, rows=2, length=3)


def test_counts_go_up_to_all_cores() -> None:
    assert [thread_counts(cores) for cores in (1, 2, 5, 16)] == [
        [1],
        [1, 2],
        [1, 2, 3, 4, 5],
        [1, 2, 3, 4, 6, 8, 12, 16],
    ]
    assert thread_counts(100)[-3:] == [64, 96, 100]
    assert usable_cores() >= 1


def test_fewer_threads_are_preferred_if_more_gain_little() -> None:
    assert best_count({1: 97.0, 2: 100.0, 4: 90.0}) == 1
    assert best_count({1: 60.0, 2: 100.0, 4: 104.0}) == 2
    assert best_count({1: 60.0, 2: 70.0, 4: 104.0}) == 4


def test_every_count_is_measured_and_the_process_is_left_as_it_was() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    speeds = measure_threads([1, 2], seconds=0.01, sample=SMALL)
    assert speeds.keys() == {1, 2}
    assert min(speeds.values()) > 0
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_threads_are_restored_after_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = torch.get_num_threads()

    def interrupt(*_: object, **__: object) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr("calque.training.thread_tuning._speed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        measure_threads([threads + 1], seconds=0.01, sample=SMALL)
    assert torch.get_num_threads() == threads
