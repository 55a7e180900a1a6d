"""Error rates equal jiwer's; intervals contain the rate and shrink with more recordings."""

import random

import jiwer
import pytest

from calque.evaluation.word_errors import (
    Errors,
    bootstrap_interval,
    character_errors,
    edit_errors,
    error_rates,
    word_errors,
)


def sentences(seed: int, count: int) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(["a", "bb", "c", "dd", "e"], k=generator.randint(1, 9))) for _ in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_rates_are_those_of_jiwer(seed) -> None:
    references, hypotheses = sentences(seed, 40), sentences(seed + 100, 40)
    rates = error_rates(references, hypotheses)
    assert rates.words.rate == pytest.approx(jiwer.wer(references, hypotheses))
    assert rates.characters.rate == pytest.approx(jiwer.cer(references, hypotheses))
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        theirs = jiwer.process_words(reference, hypothesis)
        ours = word_errors(reference, hypothesis)
        assert ours.edits == theirs.substitutions + theirs.insertions + theirs.deletions
        assert ours.insertions - ours.deletions == theirs.insertions - theirs.deletions


def test_edits_of_known_kinds_are_counted_as_such() -> None:
    assert edit_errors(["a", "b", "c"], ["a", "b", "c"]) == Errors(0, 0, 0, 3)
    assert edit_errors(["a", "b", "c"], ["a", "c"]) == Errors(0, 0, 1, 3)
    assert edit_errors(["a", "b", "c"], ["a", "b", "x", "c"]) == Errors(0, 1, 0, 3)
    assert edit_errors(["a", "b", "c"], ["a", "x", "c"]) == Errors(1, 0, 0, 3)
    assert edit_errors([], ["a", "b"]) == Errors(0, 2, 0, 0)
    assert edit_errors(["a", "b"], []) == Errors(0, 0, 2, 2)
    assert Errors(0, 2, 0, 0).rate == float("inf") and Errors().rate == 0
    assert character_errors("a  b", "a b").edits == 0


def test_intervals_contain_the_rate_and_shrink_with_the_test_set() -> None:
    few = [word_errors(*pair) for pair in zip(sentences(1, 20), sentences(2, 20), strict=True)]
    rate = sum(few, Errors()).rate
    small, large = bootstrap_interval(few), bootstrap_interval(few * 30)
    assert small.low < rate < small.high
    assert large.high - large.low < (small.high - small.low) / 3
    assert bootstrap_interval(few) == small
