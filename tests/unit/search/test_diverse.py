"""Diverse beam search against a second one of plain lists (Vijayakumar et al. 2018)."""

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
    patient,
    rank,
    search,
    start,
    tasks,
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
    """One sentence in lists, always to its maximum length.

    Only hypotheses that go on have taken a token: an end is no word that another group should keep away from.
    """
    lives: list[list[tuple[int, ...]]] = [[()] for _ in range(groups)]
    ended: list[tuple[int, ...]] = []
    for length in range(1, sentence.maximum + 1):
        taken: Counter[int] = Counter()
        before = [tokens for live in lives for tokens in live]
        for group, live in enumerate(lives):
            compared = {tokens: value for live_tokens in live for tokens, value in grow(sentence, live_tokens, length)}
            penalty = {token: strength * count for token, count in taken.items()}
            compared = {tokens: value - penalty.get(tokens[-1], 0) for tokens, value in compared.items()}
            grown = sorted(compared, key=lambda tokens, compared=compared: -compared[tokens])
            ended += [tokens for tokens in grown[:share] if tokens[-1] == MARKS.end]
            lives[group] = [tokens for tokens in grown if tokens[-1] != MARKS.end][:share]
            taken.update(tokens[-1] for tokens in lives[group])
    finished = [hypothesis(sentence, tokens, score) for tokens in dict.fromkeys(ended)]  # each is given once
    left = [tokens for tokens in dict.fromkeys(before) if (*tokens, MARKS.end) not in ended]
    cut = [hypothesis(sentence, tokens, score) for tokens in left]
    finished, cut = (sorted(each, key=lambda one: -one.score) for each in (finished, cut))
    return (finished + cut)[:nbest]


def grow(sentence: Sentence, live: tuple[int, ...], length: int) -> list[tuple[tuple[int, ...], float]]:
    """What a hypothesis may become, each with its log-probability."""
    grown = [((*live, token), sentence.totals((*live, token))[-1]) for token in allowed(sentence, length)]
    return [(tokens, value) for tokens, value in grown if value > IMPOSSIBLE]


def hypothesis(sentence: Sentence, tokens: tuple[int, ...], score: Scoring) -> Hypothesis:
    is_cut = tokens[-1] != MARKS.end
    words = tokens if is_cut else tokens[:-1]
    return Hypothesis(words, rank(sentence, tokens, score), sentence.totals(tokens)[-1], cut=is_cut)


def alike(found: list[Hypothesis], expected: list[Hypothesis], *, sentence: Sentence, score: Scoring) -> None:
    """The same in the same order, but for equals where sums of several terms are compared; two groups may agree."""
    assert [each.cut for each in found] == [each.cut for each in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.score == pytest.approx(other.score, rel=1e-9, abs=1e-9)
        if score[1:4] == (0, 0, 0):
            assert one.tokens == other.tokens
        tokens = one.tokens if one.cut else (*one.tokens, MARKS.end)
        again = hypothesis(sentence, tokens, score)
        assert one.log_prob == pytest.approx(again.log_prob, rel=1e-12, abs=1e-12)
        assert one.score == pytest.approx(again.score, rel=1e-9, abs=1e-9)


@patient
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
    found = diverse(task, groups=groups, share=share, strength=strength, nbest=nbest, score=score)
    for hypotheses, sentence in zip(found, task.sentences, strict=True):
        expected = plain_diverse(sentence, groups=groups, share=share, strength=strength, nbest=nbest, score=score)
        alike(hypotheses, expected, sentence=sentence, score=score)


@patient
@given(
    task=tasks(longest=6, sentences=4),
    beams=st.integers(1, 6),
    strength=STRENGTHS,
    nbest=st.integers(1, 6),
    score=SCORINGS,
)
def test_one_group_is_the_widest_beam(task: Task, beams: int, strength: float, nbest: int, score: Scoring) -> None:
    alone = diverse(task, groups=1, share=beams, strength=strength, nbest=nbest, score=score)
    assert alone == search(task, beams=beams, nbest=nbest, score=score)


@patient
@given(task=tasks(longest=6, sentences=4), groups=st.integers(1, 4), share=st.integers(1, 3), score=SCORINGS)
def test_without_strength_every_group_is_the_plain_beam_of_its_share(
    task: Task, groups: int, share: int, score: Scoring
) -> None:
    found = diverse(task, groups=groups, share=share, strength=0.0, nbest=EVERYTHING, score=score)
    plain = search(task, beams=share, nbest=EVERYTHING, score=score)
    for hypotheses, once in zip(found, plain, strict=True):
        assert Counter(hypotheses) == Counter(once)  # an answer is given once, however many groups have it


@patient
@given(task=tasks(longest=2, sentences=4, impossible=False), groups=st.integers(1, len(WORDS)))
def test_a_strong_penalty_makes_the_groups_begin_differently(task: Task, groups: int) -> None:
    count = len(task.maximum)
    first = task._replace(maximum=[2] * count, minimum=[3] * count)  # all that is found is one word long, and cut
    for hypotheses in diverse(first, groups=groups, share=1, strength=1e3, nbest=EVERYTHING, score=Scoring()):
        assert len({each.tokens for each in hypotheses}) == len(hypotheses) == groups


def test_the_penalty_counts_hypotheses_and_is_not_in_what_they_are_worth() -> None:
    tables = torch.full((1, VOCABULARY, VOCABULARY, VOCABULARY), -9.0, dtype=torch.float64)
    tables[..., 1], tables[..., 3] = -1.0, -2.5
    task = Task(tables, [2], [3], torch.zeros(1, VOCABULARY, VOCABULARY, 1), [1])
    # Once taken, the first word is compared as −2 and still better; twice taken as −3, and the second is. It is cut
    # at one word, and what several groups say is given once.
    for groups, words in ((1, [1]), (2, [1]), (3, [1, 3]), (4, [1, 3])):
        (found,) = diverse(task, groups=groups, share=1, strength=1.0, nbest=EVERYTHING, score=Scoring())
        assert [(each.tokens, each.log_prob) for each in found] == [
            ((word,), {1: -1.0, 3: -2.5}[word]) for word in words
        ]


@pytest.mark.parametrize(("beams", "groups"), [(4, 3), (2, 4), (7, 2)])
def test_groups_that_cannot_share_the_beams_evenly_are_refused(beams: int, groups: int) -> None:
    with pytest.raises(ValueError, match=f"{groups} groups cannot share {beams} beams"):
        Diverse(beams, groups=groups, strength=0.5)
