"""ROUGE: the package's numbers against the definition written out, and a message where the package is missing."""

import builtins
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calque.errors import DataError
from calque.evaluation.rouge import rouge

words = st.sampled_from(["cat", "dog", "sat", "mat", "the", "on", "a"])
texts = st.lists(words, min_size=1, max_size=7).map(" ".join)


def f_measure(shared: int, found: int, expected: int) -> float:
    return 2 * shared / (found + expected) if shared else 0.0


def ngram_score(text: str, reference: str, n: int) -> float:
    """ROUGE-N by its definition: clipped n-gram matches."""
    found, expected = (
        Counter(tuple(line.split()[start : start + n]) for start in range(len(line.split()) - n + 1))
        for line in (text, reference)
    )
    return f_measure((found & expected).total(), found.total(), expected.total())


def longest_common(first: list[str], second: list[str]) -> int:
    """The length of the longest common subsequence, by trying every subsequence of the first."""
    best = 0
    for mask in range(1 << len(first)):
        chosen = [word for place, word in enumerate(first) if mask >> place & 1]
        rest = iter(second)
        if len(chosen) > best and all(word in rest for word in chosen):
            best = len(chosen)
    return best


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=3))
def test_scores_are_those_of_the_definitions(pairs: list[tuple[str, str]]) -> None:
    pytest.importorskip("rouge_score")
    result = rouge([text for text, _ in pairs], [reference for _, reference in pairs], stemmer=False)
    for n, value in ((1, result.rouge1), (2, result.rouge2)):
        assert value == pytest.approx(100 * sum(ngram_score(*pair, n) for pair in pairs) / len(pairs))
    longest = [
        f_measure(longest_common(text.split(), reference.split()), len(text.split()), len(reference.split()))
        for text, reference in pairs
    ]
    assert result.rougeL == pytest.approx(100 * sum(longest) / len(pairs))


def test_stemming_joins_forms_of_a_word() -> None:
    pytest.importorskip("rouge_score")
    assert rouge(["meetings confirmed"], ["meeting confirming"]).rouge1 == pytest.approx(100)
    assert rouge(["meetings confirmed"], ["meeting confirming"], stemmer=False).rouge1 == 0
    assert rouge(["a"], ["a"]).signature.startswith("rouge-score:")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without_rouge(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("rouge_score"):
            raise ImportError(name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_rouge)
    with pytest.raises(DataError, match=r'pip install "calque\[summaries\]"'):
        rouge(["a"], ["a"])


def test_unequal_numbers_are_rejected() -> None:
    with pytest.raises(DataError, match="1 summaries but 2 references"):
        rouge(["a"], ["a", "b"])
