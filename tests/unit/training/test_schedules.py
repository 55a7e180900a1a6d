"""Schedules against their formulas, written out a second time."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calque.training.schedules import ScheduleConfig, rate_at

STEPS = 100
KINDS = ["constant", "inverse_sqrt", "cosine", "linear", "halving", "plateau"]


def rates(kind: str, *, warmup: int = 10, floor: float = 0.0) -> list[float]:
    config = ScheduleConfig(kind=kind, warmup=warmup, floor=floor)
    return [rate_at(config, step=step, steps=STEPS) for step in range(1, STEPS + 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_warm_up_is_a_line_from_zero_to_the_peak(kind: str) -> None:
    assert rates(kind)[:10] == [step / 10 for step in range(1, 11)]
    assert max(rates(kind)) == 1.0
    assert rates(kind, warmup=0)[0] == 1.0  # no warm-up begins at the peak


def test_constant_stays() -> None:
    assert set(rates("constant")[9:]) == {1.0}


def test_inverse_sqrt_is_the_papers_formula() -> None:
    """Vaswani 2017, eq. 3: min(step^-0.5, step · warmup^-1.5), here as a share of its peak warmup^-0.5."""
    for step, rate in enumerate(rates("inverse_sqrt"), start=1):
        assert rate == pytest.approx(min(step**-0.5, step * 10**-1.5) / 10**-0.5)


def test_linear_and_cosine_fall_to_the_floor_at_the_last_step() -> None:
    for step in range(10, STEPS + 1):
        through = (step - 10) / 90
        assert rates("linear", floor=0.25)[step - 1] == pytest.approx(0.25 + 0.75 * (1 - through))
        cosine = 0.25 + 0.75 * (1 + math.cos(math.pi * through)) / 2
        assert rates("cosine", floor=0.25)[step - 1] == pytest.approx(cosine)
    assert rates("linear", floor=0.25)[-1] == rates("cosine", floor=0.25)[-1] == 0.25


def test_halving_begins_at_a_step_and_goes_on_at_intervals() -> None:
    """Luong 2015, §4.1, with smaller numbers: by half at step 50, and then every 20 steps."""
    config = ScheduleConfig(kind="halving", warmup=10, after=50, every=20)
    expected = {1: 0.1, 9: 0.9, 10: 1, 49: 1, 50: 0.5, 69: 0.5, 70: 0.25, 89: 0.25, 90: 0.125, 100: 0.125}
    assert {step: rate_at(config, step=step, steps=STEPS) for step in expected} == expected
    assert rate_at(config, step=90, steps=1000) == 0.125  # the length of the run does not matter


def test_halving_by_another_factor_at_every_step_ends_at_the_floor() -> None:
    config = ScheduleConfig(kind="halving", warmup=2, after=4, every=1, factor=0.1, floor=0.005)
    found = [rate_at(config, step=step, steps=STEPS) for step in range(1, 9)]
    assert found == pytest.approx([0.5, 1, 1, 0.1, 0.01, 0.005, 0.005, 0.005])


def test_a_plateau_drops_by_its_factor_and_no_lower_than_its_floor() -> None:
    """The warm-up goes below the floor all the same: it begins at zero."""
    config = ScheduleConfig(kind="plateau", warmup=10, factor=0.4, floor=0.1)
    found = [rate_at(config, step=30, steps=STEPS, drops=drops) for drops in range(5)]
    assert found == pytest.approx([1, 0.4, 0.16, 0.1, 0.1])
    assert rate_at(config, step=1, steps=STEPS, drops=0) == 0.1
    assert rate_at(config.model_copy(update={"warmup": 50}), step=1, steps=STEPS) == 0.02


@given(
    kind=st.sampled_from(KINDS),
    warmup=st.integers(0, 50),
    floor=st.floats(0, 1),
    steps=st.integers(1, 60),
    step=st.integers(1, 80),
)
def test_every_rate_is_a_share_of_the_peak(kind: str, warmup: int, floor: float, steps: int, step: int) -> None:
    """Also where the warm-up is longer than the run, and beyond the last step."""
    rate = rate_at(ScheduleConfig(kind=kind, warmup=warmup, floor=floor), step=step, steps=steps)
    assert 0 <= rate <= 1
