"""The arithmetic of comparisons, against hand-made runs whose answer is known."""

import pytest
from benchmarks.errors import BenchmarkError
from benchmarks.figures import (
    Measured,
    clock_for,
    difference_rate,
    interleaved,
    ratios,
    spread,
    spread_of_ratios,
)
from benchmarks.processes import Usage


def made_up(amount: float, *, startup: float, rate: float) -> Measured:
    """A run whose CPU time is the start-up and then `rate` per second; the wall clock runs twice as long."""
    cpu = startup + amount / rate
    return Measured(amount, Usage(cpu, 2 * cpu, 1000))


@pytest.mark.parametrize("startup", [0.0, 0.7, 60.0])
def test_the_difference_of_two_runs_knows_no_startup(startup: float) -> None:
    short, long = (made_up(amount, startup=startup, rate=130.0) for amount in (260, 1300))
    assert difference_rate(short, long, clock="cpu") == pytest.approx(130.0)
    assert difference_rate(short, long, clock="wall") == pytest.approx(65.0)


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (Measured(10, Usage(2.0, 2.0, 0)), Measured(20, Usage(1.9, 3.0, 0))),
        (Measured(10, Usage(1.0, 2.0, 0)), Measured(10, Usage(1.9, 3.0, 0))),
    ],
)
def test_runs_too_short_to_tell_apart_are_rejected(short: Measured, long: Measured) -> None:
    with pytest.raises(BenchmarkError, match="make the long run longer"):
        difference_rate(short, long, clock="cpu")


def test_ratios_are_taken_within_a_round() -> None:
    """A machine that slows down to a tenth in one round does not move any ratio."""
    weather = [1.0, 0.1, 0.7]
    ours, theirs = [30 * slow for slow in weather], [20 * slow for slow in weather]
    assert ratios(ours, theirs) == pytest.approx([1.5] * 3)
    with pytest.raises(ValueError, match="shorter"):
        ratios(ours, theirs[:2])


def test_a_ratio_above_one_means_that_ours_is_faster() -> None:
    speeds = {"here": [30.0, 33.0, 36.0], "other": [20.0, 30.0, 20.0]}
    found = spread_of_ratios(speeds, of="here")
    assert list(found) == ["other"]
    assert found["other"] == pytest.approx((1.5, 1.1, 1.8))


def test_a_spread_is_median_minimum_and_maximum() -> None:
    assert spread([3.0, 9.0, 1.0, 4.0]) == (3.5, 1.0, 9.0)
    assert spread([2.0]) == (2.0, 2.0, 2.0)


def test_contenders_take_turns_and_no_one_is_always_first() -> None:
    order = list(interleaved(["a", "b", "c"], rounds=4))
    assert [name for number, name in order if number == 1] == ["a", "b", "c"]
    assert [name for number, name in order if number == 2] == ["c", "b", "a"]
    positions = {name: sum(place for place, (_, other) in enumerate(order) if other == name) for name in "abc"}
    assert len(set(positions.values())) == 1  # so a linear drift costs them all the same


def test_only_one_thread_is_measured_in_cpu_seconds() -> None:
    assert [clock_for(threads) for threads in (1, 2, 8)] == ["cpu", "wall", "wall"]
