"""How hypotheses are ranked, and the upper bound on continuations."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calque.search.scoring import Scoring, SentenceLengths

ZERO_OR_MORE = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 3)
SCORINGS = st.builds(
    Scoring, ZERO_OR_MORE, ZERO_OR_MORE, ZERO_OR_MORE, ZERO_OR_MORE, st.sampled_from(["gnmt", "plain"])
)
log_probs = st.floats(-50, 0)
sums = st.lists(st.floats(0, 3), min_size=1, max_size=5)


def sentence_lengths(*, source: int = 4, maximum: int = 60) -> SentenceLengths:
    return SentenceLengths(torch.tensor([source]), torch.tensor([maximum]))


def score(scoring: Scoring, log_prob: float, *, length: int, covered: list[float], maximum: int = 60) -> float:
    values = torch.tensor([[log_prob]], dtype=torch.float64)
    coverage = torch.tensor([[covered]], dtype=torch.float64)
    lengths = sentence_lengths(source=len(covered), maximum=maximum)
    return scoring.finished(values, length=length, covered=coverage, lengths=lengths).item()


@given(log_prob=log_probs, length=st.integers(1, 50), scoring=SCORINGS, covered=sums)
def test_a_finished_score_is_its_formula(log_prob: float, length: int, scoring: Scoring, covered: list[float]) -> None:
    penalty = (5 + length) ** scoring.alpha / 6**scoring.alpha
    if scoring.normalisation == "plain":
        penalty = length**scoring.alpha
    coverage = sum(math.log(min(max(position, 1e-6), 1)) for position in covered)
    expected = log_prob / penalty + scoring.beta * coverage
    expected += scoring.gamma * len(covered) / length + scoring.reward * length
    assert score(scoring, log_prob, length=length, covered=covered) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@given(
    log_prob=log_probs,
    more=log_probs,
    lengths=st.tuples(*[st.integers(1, 50)] * 3),
    scoring=SCORINGS,
    covered=sums,
)
def test_no_continuation_beats_the_bound(
    log_prob: float, more: float, lengths: tuple[int, int, int], scoring: Scoring, covered: list[float]
) -> None:
    now, end, maximum = sorted(lengths)
    sizes = sentence_lengths(source=len(covered), maximum=maximum + 1)
    bound = scoring.bound(torch.tensor([log_prob], dtype=torch.float64), length=now, lengths=sizes).item()
    reached = score(scoring, log_prob + more, length=end + 1, covered=covered, maximum=maximum + 1)
    assert reached <= bound + 1e-9 * (1 + abs(bound))


@given(log_prob=log_probs, maximum=st.integers(2, 50), alpha=ZERO_OR_MORE, reward=ZERO_OR_MORE)
def test_the_bound_can_be_reached(log_prob: float, maximum: int, alpha: float, reward: float) -> None:
    scoring = Scoring(alpha, reward=reward)
    reached = score(scoring, log_prob, length=maximum, covered=[1.0], maximum=maximum)
    bound = scoring.bound(
        torch.tensor([log_prob], dtype=torch.float64), length=1, lengths=sentence_lengths(maximum=maximum)
    )
    assert bound.item() == pytest.approx(reached, rel=1e-12)


def test_padding_positions_are_not_covered() -> None:
    covered = torch.tensor([[[0.5, 0.5, 0.0]], [[0.5, 0.5, 0.0]]])
    sentence_lengths = SentenceLengths(torch.tensor([2, 3]), torch.tensor([9, 9]))
    two, three = (
        Scoring(beta=1.0).finished(torch.zeros(2, 1), length=2, covered=covered, lengths=sentence_lengths).squeeze(1)
    )
    assert two.item() == pytest.approx(2 * math.log(0.5))
    assert three.item() == pytest.approx(2 * math.log(0.5) + math.log(1e-6))


def test_coverage_without_attention_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"search\.coverage = 0"):
        Scoring(beta=0.1).finished(torch.zeros(1, 1), length=1, covered=None, lengths=sentence_lengths())
