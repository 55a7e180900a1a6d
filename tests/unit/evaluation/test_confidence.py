"""Confidence: never falls, fits what was held out, and is calibrated on what was not."""

import itertools
import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from calque.evaluation.confidence import Confidence, calibrate, isotonic, pooled


def error(values: list[float], blocks: list[slice]) -> float:
    return sum((value - fmean(values[block])) ** 2 for block in blocks for value in values[block])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_blocks_are_the_best_of_all_that_never_fall(values: list[float]) -> None:
    """Against every way to cut the values into blocks with means that do not fall."""
    ways = []
    for cuts in itertools.product([False, True], repeat=len(values) - 1):
        places = [0, *(place for place, is_cut in enumerate(cuts, start=1) if is_cut), len(values)]
        blocks = [slice(start, stop) for start, stop in itertools.pairwise(places)]
        means = [fmean(values[block]) for block in blocks]
        if means == sorted(means):
            ways.append(error(values, blocks))
    found = pooled(values)
    means = [fmean(values[block]) for block in found]
    assert means == sorted(means)
    assert error(values, found) == pytest.approx(min(ways), abs=1e-12)


def test_knots_are_the_means_of_blocks_in_order() -> None:
    (first, last) = isotonic([-1.0, -3.0, -2.0], [0.5, 0.4, 0.2])
    assert first == pytest.approx((-2.5, 0.3))
    assert last == (-1.0, 0.5)


def test_between_knots_it_is_a_line_and_outside_it_stays() -> None:
    confidence = Confidence(((-2.0, 0.2), (-1.0, 0.6)))
    assert [confidence(x) for x in (-9.0, -2.0, -1.5, -1.0, 0.0)] == pytest.approx([0.2, 0.2, 0.4, 0.6, 0.6])


def test_what_it_says_is_what_can_be_expected() -> None:
    """On pairs it has not seen, the mean quality of those it gives about q is about q."""
    generator = random.Random(3)

    def drawn(count: int) -> tuple[list[float], list[str], list[str]]:
        references = ["".join(generator.choices("abcdefgh ", k=30)) for _ in range(count)]
        shares = [generator.random() for _ in range(count)]
        texts = [
            "".join(c if generator.random() < share else generator.choice("xyz") for c in line)
            for line, share in zip(references, shares, strict=True)
        ]
        return [share * 3 - 3 for share in shares], texts, references

    confidence = calibrate(*drawn(600))
    places, texts, references = drawn(600)
    rows = [
        (confidence(place), CHRF().sentence_score(one, [other]).score / 100)
        for place, one, other in zip(places, texts, references, strict=True)
    ]
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        near = [(said, true) for said, true in rows if low <= said < low + 0.2]
        if len(near) > 30:
            assert sum(said for said, _ in near) == pytest.approx(sum(true for _, true in near), rel=0.1)


def test_a_few_translations_tell_nothing() -> None:
    assert calibrate([-1.0] * 5, ["a"] * 5, ["a"] * 5) is None
