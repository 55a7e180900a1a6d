"""How hypotheses are ranked, and what no continuation can beat."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calque.search.scoring import LengthNormalised

alphas = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 3)
log_probs = st.floats(-50, 0)


@given(log_prob=log_probs, length=st.integers(1, 50), alpha=alphas)
def test_a_finished_score_is_wu_2016_equation_14(log_prob: float, length: int, alpha: float) -> None:
    found = LengthNormalised(alpha).finished(torch.tensor([log_prob], dtype=torch.float64), length=length)
    assert found.item() == pytest.approx(log_prob / ((5 + length) ** alpha / (5 + 1) ** alpha), rel=1e-12)


@given(log_prob=log_probs, more=log_probs, lengths=st.tuples(*[st.integers(1, 50)] * 2), alpha=alphas)
def test_no_continuation_beats_the_bound(log_prob: float, more: float, lengths: tuple[int, int], alpha: float) -> None:
    length, maximum = sorted(lengths)
    score, now = LengthNormalised(alpha), torch.tensor([log_prob], dtype=torch.float64)
    bound = score.bound(now, maximum=torch.tensor([maximum])).item()
    reached = score.finished(now + more, length=length).item()
    assert reached <= bound + 1e-12 * abs(bound)


@given(log_prob=log_probs, maximum=st.integers(1, 50), alpha=alphas)
def test_the_bound_can_be_reached(log_prob: float, maximum: int, alpha: float) -> None:
    score, now = LengthNormalised(alpha), torch.tensor([log_prob], dtype=torch.float64)
    reached = score.finished(now, length=maximum).item()
    assert score.bound(now, maximum=torch.tensor([maximum])).item() == pytest.approx(reached, rel=1e-12)
