"""Error rates, against jiwer and a plain recursion; intervals contain the rate and shrink with more recordings."""

import math
import random
from functools import cache

import jiwer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calque.errors import DataError
from calque.evaluation import error_rates as error_rates_module
from calque.evaluation.error_rates import (
    Errors,
    all_character_errors,
    all_edit_errors,
    all_word_errors,
    bootstrap_interval,
    character_errors,
    edit_errors,
    error_rates,
    transcript_errors,
    word_errors,
)

sequences = st.lists(st.sampled_from("abc"), max_size=7)


def recursive_distance(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    """The definition of the edit distance, without a table."""

    @cache
    def distance(left: int, right: int) -> int:
        if not left or not right:
            return left + right
        substituted = distance(left - 1, right - 1) + (first[left - 1] != second[right - 1])
        return min(substituted, distance(left - 1, right) + 1, distance(left, right - 1) + 1)

    return distance(len(first), len(second))


@given(sequences, sequences)
def test_the_distance_is_that_of_its_definition(first: list[str], second: list[str]) -> None:
    assert edit_errors(first, second).edits == recursive_distance(tuple(first), tuple(second))


def clear_errors(first: list[str], second: list[str]) -> Errors:
    """Levenshtein's table, cell by cell: the fewest edits and, among those, most substitutions."""
    table: dict[tuple[int, int], tuple[int, int, int, int]] = {(0, 0): (0, 0, 0, 0)}  # (edits, −S, I, D)
    for row in range(len(first) + 1):
        for column in range(len(second) + 1):
            ways = []
            if row and column:
                edits, s, i, d = table[row - 1, column - 1]
                differs = first[row - 1] != second[column - 1]
                ways.append((edits + differs, s - differs, i, d))
            if column:
                edits, s, i, d = table[row, column - 1]
                ways.append((edits + 1, s, i + 1, d))
            if row:
                edits, s, i, d = table[row - 1, column]
                ways.append((edits + 1, s, i, d + 1))
            table[row, column] = min([*ways, *([table[0, 0]] if not ways else [])])
    _, s, i, d = table[len(first), len(second)]
    return Errors(-s, i, d, len(first))


@given(st.lists(st.tuples(sequences, sequences), max_size=6))
def test_many_pairs_at_once_are_compared_as_one_after_the_other(pairs: list[tuple[list[str], list[str]]]) -> None:
    expected = [clear_errors(*pair) for pair in pairs]
    with pytest.MonkeyPatch.context() as patch:
        for cells in (1, 13, error_rates_module.TOGETHER):
            patch.setattr(error_rates_module, "TOGETHER", cells)
            assert all_edit_errors([first for first, _ in pairs], [second for _, second in pairs]) == expected
    assert [edit_errors(*pair) for pair in pairs] == expected


def test_long_texts_are_compared_in_blocks() -> None:
    generator = random.Random(3)
    texts = [["".join(generator.choices("ab c", k=generator.randint(0, 60))) for _ in range(60)] for _ in range(2)]
    expected = [clear_errors(list(" ".join(a.split())), list(" ".join(b.split()))) for a, b in zip(*texts, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(error_rates_module, "TOGETHER", 300)
        assert all_character_errors(*texts) == expected
    assert all_word_errors(*texts) == [word_errors(*pair) for pair in zip(*texts, strict=True)]


def test_rates_count_edits_per_reference_symbol_and_wrong_sequences() -> None:
    rates = error_rates([["a", "b"], ["c"]], [[["a", "b"]], [["c", "d"]]])
    assert rates == pytest.approx((100 * 1 / 4, 50.0))


@given(st.lists(st.tuples(sequences, st.lists(sequences, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_the_closest_reference_counts(rows: list[tuple[list[str], list[list[str]]]]) -> None:
    rates = error_rates([row for row, _ in rows], [choices for _, choices in rows])
    closest = [
        min(choices, key=lambda choice: (recursive_distance(tuple(row), tuple(choice)), -len(choice)))
        for row, choices in rows
    ]
    assert rates == error_rates([row for row, _ in rows], [[choice] for choice in closest])
    assert rates.sequences == pytest.approx(100 * sum(row not in choices for row, choices in rows) / len(rows))


def test_unequal_numbers_and_missing_references_are_rejected() -> None:
    with pytest.raises(DataError, match="2 outputs but references for 1"):
        error_rates([["a"], ["b"]], [[["a"]]])
    with pytest.raises(DataError, match="at least one reference"):
        error_rates([["a"]], [[]])


def sentences(seed: int, count: int) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(["a", "bb", "c", "dd", "e"], k=generator.randint(1, 9))) for _ in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_rates_of_transcripts_are_those_of_jiwer(seed: int) -> None:
    references, hypotheses = sentences(seed, 40), sentences(seed + 100, 40)
    rates = transcript_errors(references, hypotheses)
    assert rates.words.rate == pytest.approx(jiwer.wer(references, hypotheses))
    assert rates.characters.rate == pytest.approx(jiwer.cer(references, hypotheses))
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        theirs = jiwer.process_words(reference, hypothesis)
        ours = word_errors(reference, hypothesis)
        assert ours.edits == theirs.substitutions + theirs.insertions + theirs.deletions
        assert ours.insertions - ours.deletions == theirs.insertions - theirs.deletions


def test_empty_references_are_rated_as_in_jiwer() -> None:
    for references, hypotheses in ((["", ""], ["a bb", ""]), (["", "a"], ["b", "a"]), ([""], [""])):
        rates = transcript_errors(references, hypotheses)
        assert rates.words.rate == pytest.approx(jiwer.wer(references, hypotheses))
        assert rates.characters.rate == pytest.approx(jiwer.cer(references, hypotheses))
        assert math.isfinite(rates.words_interval.low) and math.isfinite(rates.characters_interval.high)
    with pytest.raises(DataError, match="no recordings"):
        transcript_errors([], [])


def test_edits_of_known_kinds_are_counted_as_such() -> None:
    assert edit_errors(["a", "b", "c"], ["a", "b", "c"]) == Errors(0, 0, 0, 3)
    assert edit_errors(["a", "b", "c"], ["a", "c"]) == Errors(0, 0, 1, 3)
    assert edit_errors(["a", "b", "c"], ["a", "b", "x", "c"]) == Errors(0, 1, 0, 3)
    assert edit_errors(["a", "b", "c"], ["a", "x", "c"]) == Errors(1, 0, 0, 3)
    assert edit_errors([], ["a", "b"]) == Errors(0, 2, 0, 0)
    assert edit_errors(["a", "b"], []) == Errors(0, 0, 2, 2)
    assert Errors().rate == 0
    assert character_errors("a  b", "a b").edits == 0


def test_intervals_contain_the_rate_and_shrink_with_the_test_set() -> None:
    few = [word_errors(*pair) for pair in zip(sentences(1, 20), sentences(2, 20), strict=True)]
    rate = sum(few, Errors()).rate
    small, large = bootstrap_interval(few), bootstrap_interval(few * 30)
    assert small.low < small.value == rate < small.high
    assert large.high - large.low < (small.high - small.low) / 3
    assert bootstrap_interval(few) == small
