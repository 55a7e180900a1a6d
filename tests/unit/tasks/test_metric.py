"""The worth of metric values: higher is better, and chance level is worth nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calque.tasks.metric import Metric

values = st.floats(-1e6, 1e6)


@given(value=values, rival=values)
def test_worth_sorts_values_as_the_metric_means(value: float, rival: float) -> None:
    assert (Metric("lower").worth(value) > Metric("lower").worth(rival)) == (value < rival)
    higher = Metric("higher", chance=-math.inf)
    assert (higher.worth(value) > higher.worth(rival)) == (value > rival)


@given(value=st.floats(0, 100), rival=st.floats(0, 100), chance=st.floats(0, 50))
def test_values_below_chance_are_worth_the_same_and_less_than_all_others(
    value: float, rival: float, chance: float
) -> None:
    metric = Metric("higher", chance=chance)
    assert metric.is_chance(value) == (value < chance)
    worths = metric.worth(value), metric.worth(rival)
    if metric.is_chance(value):
        assert worths[0] == 0.0
        assert worths[0] <= worths[1]
    elif not metric.is_chance(rival):
        assert worths == (value, rival)


def test_lower_is_better_has_no_chance_and_negative_values_stay_below_zero() -> None:
    assert not Metric("lower", chance=5.0).is_chance(2.0)
    assert Metric("lower", chance=5.0).worth(2.0) == -2.0
    assert Metric("higher", chance=1.0).worth(-3.0) == -3.0
    assert Metric("higher", chance=1.0).worth(1.0) == 1.0


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_nan_is_worth_nan(better) -> None:
    assert math.isnan(Metric(better).worth(math.nan))
