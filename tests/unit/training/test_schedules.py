"""Schedules against their formulas, written out a second time."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calque.training.schedules import ScheduleConfig, rate_at

STEPS = 100


def rates(kind: str, *, warmup: int = 10, floor: float = 0.0) -> list[float]:
    config = ScheduleConfig(kind=kind, warmup=warmup, floor=floor)
    return [rate_at(config, step=step, steps=STEPS) for step in range(1, STEPS + 1)]


@pytest.mark.parametrize("kind", ["constant", "inverse_sqrt", "cosine", "linear"])
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


@given(
    kind=st.sampled_from(["constant", "inverse_sqrt", "cosine", "linear"]),
    warmup=st.integers(0, 50),
    floor=st.floats(0, 1),
    steps=st.integers(1, 60),
    step=st.integers(1, 80),
)
def test_every_rate_is_a_share_of_the_peak(kind: str, warmup: int, floor: float, steps: int, step: int) -> None:
    """Also where the warm-up is longer than the run, and beyond the last step."""
    rate = rate_at(ScheduleConfig(kind=kind, warmup=warmup, floor=floor), step=step, steps=steps)
    assert 0 <= rate <= 1
