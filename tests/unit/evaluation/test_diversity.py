"""Diversity: distinct-n against a count by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calque.evaluation.diversity import distinct, most_frequent_share

texts = st.lists(st.lists(st.sampled_from("abcd"), max_size=6).map(" ".join), max_size=5)


@given(texts, st.integers(1, 3))
def test_distinct_is_different_ngrams_per_ngram(lines: list[str], n: int) -> None:
    ngrams = []
    for line in lines:
        words = line.split()
        for start in range(len(words) - n + 1):
            ngrams.append(" ".join(words[start : start + n]))
    assert distinct(lines, n=n) == pytest.approx(100 * len(set(ngrams)) / max(1, len(ngrams)))


def test_the_same_answer_to_everything_is_seen() -> None:
    assert most_frequent_share(["yes .", "yes .", "no ."]) == pytest.approx(200 / 3)
    assert most_frequent_share([]) == 0.0
