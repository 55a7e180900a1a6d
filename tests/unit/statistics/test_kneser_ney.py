"""Modified Kneser-Ney smoothing, against a second implementation with dicts; every history sums to one."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.unit.statistics.plain_kneser_ney import PlainKneserNey

from calque.data.store import pack, store_in_memory
from calque.errors import DataError
from calque.statistics.kneser_ney import FALLBACK, Estimate, adjusted_counts, discounts_of, kneser_ney
from calque.statistics.ngram_counts import MarkedText, count_ngrams, lines_of, running_text
from calque.statistics.ngram_tables import NgramQueries
from calque.text import BOS, EOS, PAD

SIZE = 13


def marked(lines: Sequence[Sequence[int]]) -> MarkedText:
    return lines_of(store_in_memory({"text": pack(lines)})["text"], begin=BOS, end=EOS)


def estimate(text: MarkedText, *, order: int, prune: Sequence[int] = (), size: int = SIZE) -> Estimate:
    counts = count_ngrams(text, order=order, vocabulary_size=size, chunk=7)
    return kneser_ney(counts, never=(PAD, BOS), prune=prune)


def random_lines(seed: int, *, lines: int = 30, size: int = SIZE) -> list[list[int]]:
    """Lines of skewed random words, of which one is never used, some of them repeated."""
    generator = np.random.default_rng(seed)
    weights = 1 / np.arange(1, size - 3) ** 1.2
    drawn = [
        generator.choice(np.arange(3, size - 1), p=weights / weights.sum(), size=generator.integers(1, 9)).tolist()
        for _ in range(lines)
    ]
    return drawn + drawn[: lines // 3]


def test_lines_are_marked() -> None:
    tokens, begins = marked([[5, 6], [7]])
    assert tokens.tolist() == [BOS, 5, 6, EOS, BOS, 7, EOS]
    assert np.flatnonzero(begins).tolist() == [0, 4]


@pytest.mark.parametrize("chunk", [1, 2, 5, 1000])
def test_counts_are_those_of_a_plain_loop(chunk: int) -> None:
    lines = random_lines(3)
    counts = count_ngrams(marked(lines), order=4, vocabulary_size=SIZE, chunk=chunk)
    for length in range(2, 5):
        grams: dict[tuple[int, ...], int] = {}
        for line in ([BOS, *line, EOS] for line in lines):
            for start in range(len(line) - length + 1):
                gram = tuple(line[start : start + length])
                grams[gram] = grams.get(gram, 0) + 1
        spelled = [spell(counts.keys, length, row) for row in range(len(counts.keys[length - 1]))]
        assert dict(zip(spelled, counts.occurrences[length - 1].tolist(), strict=True)) == grams
        suffixes = [spell(counts.keys, length - 1, row) for row in counts.suffixes[length - 1].tolist()]
        assert suffixes == [gram[1:] for gram in spelled]
        opening = [count if gram[0] == BOS else 0 for gram, count in sorted(grams.items())]
        assert dict(zip(spelled, counts.openings[length - 1].tolist(), strict=True)) == dict(
            zip(sorted(grams), opening, strict=True)
        )


def spell(keys: Sequence[np.ndarray], length: int, row: int) -> tuple[int, ...]:
    if length == 1:
        return (row,)
    prefix, word = divmod(int(keys[length - 1][row]), SIZE)
    return (*spell(keys, length - 1, prefix), word)


def histories(lines: Sequence[Sequence[int]], *, order: int, seed: int) -> list[tuple[int, ...]]:
    """All histories of the lines, of every length, and random ones."""
    found = {
        tuple(line[max(0, end - length) : end])
        for line in lines
        for end in range(1, len(line) + 1)
        for length in range(order)
    }
    generator = np.random.default_rng(seed)
    drawn = {tuple(generator.integers(1, SIZE, size=order - 1).tolist()) for _ in range(20)}
    return sorted(found | drawn)


@pytest.mark.parametrize(("order", "seed"), [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (3, 5), (3, 6)])
@pytest.mark.parametrize("reading", ["lines", "running"])
@pytest.mark.parametrize("prune", [(), (1,), (0, 1, 2)], ids=str)
def test_probabilities_are_those_of_the_plain_equations_and_sum_to_one(
    order: int, seed: int, reading: str, prune: tuple[int, ...]
) -> None:
    lines = random_lines(seed)
    words = set(range(SIZE)) - {PAD, BOS}
    if reading == "lines":
        text, sequences = marked(lines), [[BOS, *line, EOS] for line in lines]
    else:
        values = [token for line in lines for token in (*line, EOS)]
        text, sequences = running_text(np.array(values), end=EOS), [[EOS, *values]]
    plain = PlainKneserNey(sequences, order=order, words=words, prune=prune)
    queries = NgramQueries(estimate(text, order=order, prune=prune).tables, begin=BOS)
    for history in histories(sequences, order=order, seed=seed):
        expected = [plain.p(word, history) for word in sorted(words)]
        found = [np.exp(queries.log_prob(history, word)) for word in sorted(words)]
        assert_allclose(found, expected, rtol=1e-9)
        assert_allclose(sum(found), 1, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_scores_of_words_in_order_follow_the_states(seed: int) -> None:
    lines = random_lines(seed)
    queries = NgramQueries(estimate(marked(lines), order=4, prune=(0, 1)).tables, begin=BOS)
    generator = np.random.default_rng(seed)
    for line in [*lines[:5], *(generator.integers(2, SIZE, size=7).tolist() for _ in range(5))]:
        whole = [BOS, *line, EOS]
        expected = [queries.log_prob(tuple(whole[:end]), whole[end]) for end in range(1, len(whole))]
        assert queries.score_all(whole[1:]) == pytest.approx(expected, abs=1e-12)


def test_a_state_is_the_longest_history_in_the_table() -> None:
    queries = NgramQueries(estimate(marked([[4, 5, 6, 7], [8, 5, 6, 4]]), order=4).tables, begin=BOS)
    state = queries.start()
    assert state == (BOS,)
    for word, expected in [(4, (BOS, 4)), (5, (BOS, 4, 5)), (6, (4, 5, 6)), (9, (9,)), (5, (5,)), (6, (5, 6))]:
        _, state = queries.score(state, word)
        assert state == expected


def test_nothing_follows_a_line_end_so_no_state_keeps_what_was_before_it() -> None:
    """Hypotheses with the same future have the same state."""
    queries = NgramQueries(estimate(marked([[4, 5, 6, 7], [8, 5, 6, 4]]), order=4).tables, begin=BOS)
    assert queries.score((5, 6, 7), EOS)[1] == queries.score((5, 6, 4), EOS)[1] == (EOS,)


def test_discounts_are_those_of_chen_and_goodman() -> None:
    counts = np.repeat([1, 2, 3, 4, 5], [40, 10, 6, 3, 9])
    y = 40 / 60
    assert_allclose(discounts_of(counts), (1 - 2 * y * 10 / 40, 2 - 3 * y * 6 / 10, 3 - 4 * y * 3 / 6))


@pytest.mark.parametrize("numbers", [(0, 3, 2, 1), (5, 0, 2, 1), (5, 3, 0, 1), (1, 1, 9, 0)], ids=str)
def test_too_few_different_counts_fall_back_with_a_remark(numbers: tuple[int, ...]) -> None:
    assert discounts_of(np.repeat([1, 2, 3, 4], numbers)) is None


def test_a_tiny_corpus_has_a_model_too() -> None:
    found = estimate(marked([[4]]), order=3)
    assert found.discounts == [FALLBACK] * 3
    (remark,) = found.remarks
    assert remark.startswith("there are too few different counts of 1-grams, 2-grams, 3-grams to estimate discounts")
    queries = NgramQueries(found.tables, begin=BOS)
    for history in itertools.product(range(1, SIZE), repeat=2):
        assert_allclose(sum(np.exp(queries.log_prob(history, word)) for word in range(SIZE)), 1, atol=1e-12)


def test_an_empty_corpus_is_refused() -> None:
    with pytest.raises(DataError, match="no text"):
        estimate(marked([]), order=3)


def test_lower_orders_count_the_words_to_the_left() -> None:
    """ "Francisco" occurs often, but only after "San" (Chen and Goodman 1998, §2.7)."""
    san, francisco, the, dog = 4, 5, 6, 7
    lines = [[san, francisco]] * 8 + [[the, dog], [san, dog], [dog]]
    counts = count_ngrams(marked(lines), order=2, vocabulary_size=SIZE)
    unigrams, bigrams = adjusted_counts(counts)
    assert (unigrams[francisco], unigrams[dog]) == (1, 3)
    assert bigrams.tolist() == counts.occurrences[1].tolist()
