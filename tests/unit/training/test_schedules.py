"""Schedules against a second implementation of their formulas."""

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.training.objects import assert_accepted_or_rejected

from calque.config import check, to_values
from calque.errors import ConfigError
from calque.training.progress import Progress
from calque.training.schedules import SCHEDULES_THAT_READ, ScheduleConfig, rate_at
from calque.training.settings import TrainingConfig

STEPS = 100
KINDS = get_args(ScheduleConfig.model_fields["kind"].annotation)
NOT_DEFAULT = {"warmup": 7, "floor": 0.25, "factor": 0.75, "after": 20, "every": 5, "patience": 9}


def rates(kind: str, *, warmup: int = 10, floor: float = 0.0) -> list[float]:
    config = ScheduleConfig(kind=kind, warmup=warmup, floor=floor)
    return [rate_at(config, step=step, steps=STEPS) for step in range(1, STEPS + 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_warm_up_is_a_line_from_zero_to_the_peak(kind: str) -> None:
    assert rates(kind)[:10] == [step / 10 for step in range(1, 11)]
    assert max(rates(kind)) == 1.0
    assert rates(kind, warmup=0)[0] == 1.0  # without a warm-up it starts at the peak


def test_constant_stays() -> None:
    assert set(rates("constant")[9:]) == {1.0}


def test_inverse_sqrt_is_the_papers_formula() -> None:
    """Vaswani 2017, eq. 3: min(step^-0.5, step · warmup^-1.5), here as a share of its peak warmup^-0.5."""
    for step, rate in enumerate(rates("inverse_sqrt"), start=1):
        assert rate == pytest.approx(min(step**-0.5, step * 10**-1.5) / 10**-0.5)


def test_linear_and_cosine_fall_to_the_floor_at_the_last_step() -> None:
    for step in range(10, STEPS + 1):
        progress = (step - 10) / 90
        assert rates("linear", floor=0.25)[step - 1] == pytest.approx(0.25 + 0.75 * (1 - progress))
        cosine = 0.25 + 0.75 * (1 + math.cos(math.pi * progress)) / 2
        assert rates("cosine", floor=0.25)[step - 1] == pytest.approx(cosine)
    assert rates("linear", floor=0.25)[-1] == rates("cosine", floor=0.25)[-1] == 0.25


def test_halving_starts_at_a_step_and_repeats_at_intervals() -> None:
    """Luong 2015, §4.1, with smaller numbers: by half at step 50, and then every 20 steps."""
    config = ScheduleConfig(kind="halving", warmup=10, after=50, every=20)
    expected = {1: 0.1, 9: 0.9, 10: 1, 49: 1, 50: 0.5, 69: 0.5, 70: 0.25, 89: 0.25, 90: 0.125, 100: 0.125}
    assert {step: rate_at(config, step=step, steps=STEPS) for step in expected} == expected
    assert rate_at(config, step=90, steps=1000) == 0.125  # the length of the run does not matter


def test_halving_by_another_factor_at_every_step_ends_at_the_floor() -> None:
    config = ScheduleConfig(kind="halving", warmup=2, after=4, every=1, factor=0.1, floor=0.005)
    rates = [rate_at(config, step=step, steps=STEPS) for step in range(1, 9)]
    assert rates == pytest.approx([0.5, 1, 1, 0.1, 0.01, 0.005, 0.005, 0.005])


def test_a_plateau_drops_by_its_factor_and_no_lower_than_its_floor() -> None:
    """The warm-up is not bounded by the floor: it starts at zero."""
    config = ScheduleConfig(kind="plateau", warmup=10, factor=0.4, floor=0.1)
    rates = [rate_at(config, step=30, steps=STEPS, drops=drops) for drops in range(5)]
    assert rates == pytest.approx([1, 0.4, 0.16, 0.1, 0.1])
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
    """Also if the warm-up is longer than the run, and beyond the last step."""
    config = ScheduleConfig(kind=kind).model_copy(update={"warmup": warmup, "floor": floor})
    assert 0 <= rate_at(config, step=step, steps=steps) <= 1


def rates_without_improvement(config: ScheduleConfig) -> list[float]:
    """With a validation at each step, none of them better than the first."""
    training = TrainingConfig().model_copy(update={"schedule": config})
    progress, rates = Progress(), []
    for step in range(1, STEPS + 1):
        rates.append(rate_at(config, step=step, steps=STEPS, drops=progress.drops))
        progress.step = step
        progress.judge(1.0, loss=1.0, config=training)
    return rates


@pytest.mark.parametrize("key", NOT_DEFAULT)
@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_a_kind_does_not_use_is_rejected_unless_it_is_the_default(kind: str, key: str) -> None:
    """A key is used if it changes the rates."""
    changes = {"warmup": 5, "after": 30, "every": 10, "factor": 0.5, "floor": 0.0}
    config = ScheduleConfig(kind=kind).model_copy(update=changes)
    changed = config.model_copy(update={key: NOT_DEFAULT[key]})
    is_read = rates_without_improvement(config) != rates_without_improvement(changed)
    readers = None if is_read else SCHEDULES_THAT_READ[key]
    assert_accepted_or_rejected("schedule", kind, key, NOT_DEFAULT[key], readers=readers)


def test_every_key_of_a_schedule_is_tested() -> None:
    assert {*NOT_DEFAULT, "kind"} == {*ScheduleConfig.model_fields}
    assert all(value != ScheduleConfig.model_fields[key].default for key, value in NOT_DEFAULT.items())


@pytest.mark.parametrize("kind", KINDS)
def test_a_config_written_with_all_its_keys_is_read_again(kind: str) -> None:
    config = check(TrainingConfig, {"schedule": {"kind": kind}}, origin="x")
    assert {*to_values(config)["schedule"]} == {*ScheduleConfig.model_fields}
    assert check(TrainingConfig, to_values(config), origin="x") == config


def test_all_unused_keys_are_reported_together() -> None:
    values = {"optimiser": {"momentum": 0.9}, "schedule": {"kind": "cosine", "after": 3, "patience": 9}}
    with pytest.raises(ConfigError) as refused:
        check(TrainingConfig, values, origin="x")
    assert [line.strip() for line in str(refused.value).splitlines()[1:]] == [
        "optimiser: momentum = 0.9 is used only with kind = 'sgd'; leave it out, or set it to 0.0",
        "schedule: after = 3 is used only with kind = 'halving'; leave it out, or set it to 5000; "
        "patience = 9 is used only with kind = 'plateau'; leave it out, or set it to 2",
    ]
