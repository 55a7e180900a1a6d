"""Diverse beam search against a second implementation on plain lists (Vijayakumar et al. 2018)."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.laws.test_oracle import (
    IMPOSSIBLE,
    MARKS,
    SCORINGS,
    VOCABULARY,
    WORDS,
    Sentence,
    Task,
    allowed,
    rank,
    search,
    start,
    tasks,
    thorough,
    trigram,
)

from calque.search.beam import Goal, beam_search
from calque.search.diverse import Diverse
from calque.search.scoring import Scoring
from calque.search.step import Hypothesis

STRENGTHS = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 3)
EVERYTHING = 200


def diverse(
    task: Task, *, groups: int, share: int, strength: float, nbest: int, score: Scoring
) -> list[list[Hypothesis]]:
    """Groups of `share` beams each."""
    return beam_search(
        trigram,
        start(task),
        (task.tables, task.looks),
        expansion=Diverse(groups * share, groups=groups, strength=strength),
        goal=Goal(score, nbest),
        limits=task.limits,
        marks=MARKS,
        source_lengths=torch.tensor(task.sources),
    )


def plain_diverse(
    sentence: Sentence, *, groups: int, share: int, strength: float, nbest: int, score: Scoring
) -> list[Hypothesis]:
    """One sentence on plain lists, always up to the maximum length.

    Only hypotheses that do not end count as having chosen a token: other groups are not penalised for ending.
    """
    lives: list[list[tuple[int, ...]]] = [[()] for _ in range(groups)]
    ended: list[tuple[int, ...]] = []
    for length in range(1, sentence.maximum + 1):
        taken: Counter[int] = Counter()
        previous = [tokens for live in lives for tokens in live]
        for group, live in enumerate(lives):
            compared = {tokens: value for live_tokens in live for tokens, value in grow(sentence, live_tokens, length)}
            penalty = {token: strength * count for token, count in taken.items()}
            compared = {tokens: value - penalty.get(tokens[-1], 0) for tokens, value in compared.items()}
            extended = sorted(compared, key=lambda tokens, compared=compared: -compared[tokens])
            ended += [tokens for tokens in extended[:share] if tokens[-1] == MARKS.end]
            lives[group] = [tokens for tokens in extended if tokens[-1] != MARKS.end][:share]
            taken.update(tokens[-1] for tokens in lives[group])
    finished = [rescored(sentence, tokens, score) for tokens in dict.fromkeys(ended)]  # without duplicates
    not_ended = [tokens for tokens in dict.fromkeys(previous) if (*tokens, MARKS.end) not in ended]
    cut = [rescored(sentence, tokens, score) for tokens in not_ended]
    finished, cut = (sorted(group, key=lambda hypothesis: -hypothesis.score) for group in (finished, cut))
    return (finished + cut)[:nbest]


def grow(sentence: Sentence, live: tuple[int, ...], length: int) -> list[tuple[tuple[int, ...], float]]:
    """All extensions of a hypothesis with their log-probabilities."""
    extensions = [((*live, token), sentence.totals((*live, token))[-1]) for token in allowed(sentence, length)]
    return [(tokens, value) for tokens, value in extensions if value > IMPOSSIBLE]


def rescored(sentence: Sentence, tokens: tuple[int, ...], score: Scoring) -> Hypothesis:
    is_cut = tokens[-1] != MARKS.end
    words = tokens if is_cut else tokens[:-1]
    return Hypothesis(words, rank(sentence, tokens, score), sentence.totals(tokens)[-1], cut=is_cut)


def assert_same(actual: list[Hypothesis], expected: list[Hypothesis], *, sentence: Sentence, score: Scoring) -> None:
    """The same hypotheses in the same order, except for ties up to rounding in scores of several terms."""
    assert [hypothesis.cut for hypothesis in actual] == [hypothesis.cut for hypothesis in expected]
    for hypothesis, reference in zip(actual, expected, strict=True):
        assert hypothesis.score == pytest.approx(reference.score, rel=1e-9, abs=1e-9)
        if score[1:4] == (0, 0, 0):
            assert hypothesis.tokens == reference.tokens
        tokens = hypothesis.tokens if hypothesis.cut else (*hypothesis.tokens, MARKS.end)
        expected_hypothesis = rescored(sentence, tokens, score)
        assert hypothesis.log_prob == pytest.approx(expected_hypothesis.log_prob, rel=1e-12, abs=1e-12)
        assert hypothesis.score == pytest.approx(expected_hypothesis.score, rel=1e-9, abs=1e-9)


@thorough
@given(
    task=tasks(longest=6, sentences=4),
    groups=st.integers(1, 4),
    share=st.integers(1, 3),
    strength=STRENGTHS,
    nbest=st.sampled_from([1, 3, EVERYTHING]),
    score=SCORINGS,
)
def test_a_batch_is_the_plain_diverse_beam_of_each_sentence(
    task: Task, groups: int, share: int, strength: float, nbest: int, score: Scoring
) -> None:
    results = diverse(task, groups=groups, share=share, strength=strength, nbest=nbest, score=score)
    for hypotheses, sentence in zip(results, task.sentences, strict=True):
        expected = plain_diverse(sentence, groups=groups, share=share, strength=strength, nbest=nbest, score=score)
        assert_same(hypotheses, expected, sentence=sentence, score=score)


@thorough
@given(
    task=tasks(longest=6, sentences=4),
    beams=st.integers(1, 6),
    strength=STRENGTHS,
    nbest=st.integers(1, 6),
    score=SCORINGS,
)
def test_one_group_is_standard_beam_search(task: Task, beams: int, strength: float, nbest: int, score: Scoring) -> None:
    results = diverse(task, groups=1, share=beams, strength=strength, nbest=nbest, score=score)
    assert results == search(task, beams=beams, nbest=nbest, score=score)


@thorough
@given(task=tasks(longest=6, sentences=4), groups=st.integers(1, 4), share=st.integers(1, 3), score=SCORINGS)
def test_without_strength_every_group_is_the_plain_beam_of_its_share(
    task: Task, groups: int, share: int, score: Scoring
) -> None:
    results = diverse(task, groups=groups, share=share, strength=0.0, nbest=EVERYTHING, score=score)
    plain = search(task, beams=share, nbest=EVERYTHING, score=score)
    for hypotheses, distinct in zip(results, plain, strict=True):
        assert Counter(hypotheses) == Counter(distinct)  # without duplicates between groups


@thorough
@given(task=tasks(longest=2, sentences=4, impossible=False), groups=st.integers(1, len(WORDS)))
def test_a_strong_penalty_makes_the_groups_begin_differently(task: Task, groups: int) -> None:
    count = len(task.maximum)
    first = task._replace(maximum=[2] * count, minimum=[3] * count)  # all hypotheses are one word long, and cut
    for hypotheses in diverse(first, groups=groups, share=1, strength=1e3, nbest=EVERYTHING, score=Scoring()):
        assert len({hypothesis.tokens for hypothesis in hypotheses}) == len(hypotheses) == groups


def test_the_penalty_counts_hypotheses_and_is_not_part_of_their_score() -> None:
    tables = torch.full((1, VOCABULARY, VOCABULARY, VOCABULARY), -9.0, dtype=torch.float64)
    tables[..., 1], tables[..., 3] = -1.0, -2.5
    task = Task(tables, [2], [3], torch.zeros(1, VOCABULARY, VOCABULARY, 1), [1])
    # Chosen once, the first word is compared as −2 and still wins; chosen twice, as −3, and the second word wins.
    # Hypotheses are cut at one word and duplicates between groups removed.
    for groups, words in ((1, [1]), (2, [1]), (3, [1, 3]), (4, [1, 3])):
        (hypotheses,) = diverse(task, groups=groups, share=1, strength=1.0, nbest=EVERYTHING, score=Scoring())
        assert [(hypothesis.tokens, hypothesis.log_prob) for hypothesis in hypotheses] == [
            ((word,), {1: -1.0, 3: -2.5}[word]) for word in words
        ]


@pytest.mark.parametrize(("beams", "groups"), [(4, 3), (2, 4), (7, 2)])
def test_groups_that_do_not_divide_the_beam_are_rejected(beams: int, groups: int) -> None:
    with pytest.raises(ValueError, match=f"{groups} groups cannot share {beams} beams"):
        Diverse(beams, groups=groups, strength=0.5)
