"""Confidence: non-decreasing, an optimal fit to the held-out translations, calibrated on unseen ones."""

import itertools
import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from calque.evaluation.confidence import Confidence, calibrate, isotonic, pool_adjacent_violators


def squared_error(values: list[float], blocks: list[slice]) -> float:
    return sum((value - fmean(values[block])) ** 2 for block in blocks for value in values[block])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_blocks_are_the_best_non_decreasing_fit(values: list[float]) -> None:
    """Compared with every partition of the values into blocks with non-decreasing means."""
    errors = []
    for cuts in itertools.product([False, True], repeat=len(values) - 1):
        boundaries = [0, *(index for index, is_cut in enumerate(cuts, start=1) if is_cut), len(values)]
        blocks = [slice(start, stop) for start, stop in itertools.pairwise(boundaries)]
        means = [fmean(values[block]) for block in blocks]
        if means == sorted(means):
            errors.append(squared_error(values, blocks))
    pooled = pool_adjacent_violators(values)
    means = [fmean(values[block]) for block in pooled]
    assert means == sorted(means)
    assert squared_error(values, pooled) == pytest.approx(min(errors), abs=1e-12)


def test_knots_are_block_means_in_order() -> None:
    (first, last) = isotonic([-1.0, -3.0, -2.0], [0.5, 0.4, 0.2])
    assert first == pytest.approx((-2.5, 0.3))
    assert last == (-1.0, 0.5)


def test_it_is_linear_between_knots_and_constant_outside() -> None:
    confidence = Confidence(((-2.0, 0.2), (-1.0, 0.6)))
    assert [confidence(x) for x in (-9.0, -2.0, -1.5, -1.0, 0.0)] == pytest.approx([0.2, 0.2, 0.4, 0.6, 0.6])


def test_it_is_calibrated_on_unseen_translations() -> None:
    """Among unseen translations with confidence near q, the mean quality is near q."""
    generator = random.Random(3)

    def sample(count: int) -> tuple[list[float], list[str], list[str]]:
        references = ["".join(generator.choices("abcdefgh ", k=30)) for _ in range(count)]
        shares = [generator.random() for _ in range(count)]
        texts = [
            "".join(c if generator.random() < share else generator.choice("xyz") for c in line)
            for line, share in zip(references, shares, strict=True)
        ]
        return [share * 3 - 3 for share in shares], texts, references

    confidence = calibrate(*sample(600))
    log_probs, texts, references = sample(600)
    rows = [
        (confidence(log_prob), CHRF().sentence_score(text, [reference]).score / 100)
        for log_prob, text, reference in zip(log_probs, texts, references, strict=True)
    ]
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        near = [(expected, actual) for expected, actual in rows if low <= expected < low + 0.2]
        if len(near) > 30:
            assert sum(expected for expected, _ in near) == pytest.approx(sum(actual for _, actual in near), rel=0.1)


def test_too_few_translations_give_no_confidence() -> None:
    assert calibrate([-1.0] * 5, ["a"] * 5, ["a"] * 5) is None
