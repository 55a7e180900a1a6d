"""Constrained search against plain searches that exclude forbidden hypotheses."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from hypothesis import assume, given
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
    plain_beam,
    same,
    start,
    tasks,
    thorough,
    trigram,
)

from calque.search.beam import BestK, Goal, beam_search
from calque.search.constraints import Constraint, NoRepeat, Prefix, constrained, start_constrained
from calque.search.greedy import greedy_search
from calque.search.scoring import Scoring
from calque.search.step import Hypothesis

Words = tuple[int, ...]
Rule = Callable[[Words], bool]


class Ruled(NamedTuple):
    """A sentence in which some hypotheses are impossible; plain searches use it like a Sentence."""

    sentence: Sentence
    may: Rule  # of tokens including the end mark

    @property
    def maximum(self) -> int:
        return self.sentence.maximum

    @property
    def minimum(self) -> int:
        return self.sentence.minimum

    @property
    def looks(self) -> list[list[list[float]]]:
        return self.sentence.looks

    @property
    def source(self) -> int:
        return self.sentence.source

    def totals(self, tokens: Words) -> list[float]:
        totals = self.sentence.totals(tokens)
        return [total if self.may(tokens[: size + 1]) else IMPOSSIBLE for size, total in enumerate(totals)]


def begins_with(prefix: Words) -> Rule:
    return lambda tokens: all(token == required for token, required in zip(tokens, prefix, strict=False))


def repeats_nothing(size: int) -> Rule:
    def may(tokens: Words) -> bool:
        grams = [tokens[start : start + size] for start in range(len(tokens) - size + 1)]
        return len(set(grams)) == len(grams)

    return may


def all_of(first: Rule, second: Rule) -> Rule:
    return lambda tokens: first(tokens) and second(tokens)


def beam(
    task: Task, rules: list[Constraint], *, beams: int, nbest: int, score: Scoring, stop_after: int | None = None
) -> list[list[Hypothesis]]:
    state, context = start_state(task, rules)
    return beam_search(
        constrained(trigram, rules),
        state,
        context,
        expansion=BestK(beams),
        goal=Goal(score, nbest, stop_after),
        limits=task.limits,
        marks=MARKS,
        source_lengths=torch.tensor(task.sources),
    )


def greedy(task: Task, rules: list[Constraint]) -> list[list[Hypothesis]]:
    state, context = start_state(task, rules)
    return greedy_search(constrained(trigram, rules), state, context, limits=task.limits, marks=MARKS)


def start_state(task: Task, rules: list[Constraint]) -> tuple[object, object]:
    count, model = len(task.tables), (task.tables, task.looks)
    return start_constrained(rules, state=start(task), context=model, sentences=count, device=torch.device("cpu"))


def plain_greedy(sentence: Ruled) -> list[Hypothesis]:
    """The best token at every step; empty if no token is allowed."""
    tokens: Words = ()
    for length in range(1, sentence.maximum + 1):
        totals = {token: sentence.totals((*tokens, token))[-1] for token in allowed(sentence, length)}
        best = max(totals, key=lambda token, totals=totals: totals[token])
        if best == MARKS.end and totals[best] > IMPOSSIBLE:
            return [Hypothesis(tokens, totals[best], totals[best], cut=False)]
        if length == sentence.maximum:
            return [Hypothesis(tokens, sentence.totals(tokens)[-1], sentence.totals(tokens)[-1], cut=True)]
        if totals[best] == IMPOSSIBLE:
            return []
        tokens = (*tokens, best)
    raise AssertionError("a sentence has a maximum")


@st.composite
def prefixed(draw: Callable, *, impossible: bool = True) -> tuple[Task, list[Words]]:
    """A task and a prefix per sentence: some empty, some longer than the maximum length."""
    task = draw(tasks(longest=6, sentences=5, impossible=impossible))
    prefix = st.lists(st.sampled_from(WORDS), max_size=7).map(tuple) | st.just(())
    count = len(task.maximum)
    return task, draw(st.lists(prefix, min_size=count, max_size=count))


@thorough
@given(problem=prefixed(), beams=st.integers(1, 5), nbest=st.integers(1, 6), score=SCORINGS)
def test_hypotheses_with_a_prefix_are_the_plain_beams(
    problem: tuple[Task, list[Words]], beams: int, nbest: int, score: Scoring
) -> None:
    task, prefixes = problem
    results = beam(task, [Prefix(prefixes)], beams=beams, nbest=nbest, score=score)
    for hypotheses, sentence, prefix in zip(results, task.sentences, prefixes, strict=True):
        ruled = Ruled(sentence, begins_with(prefix))
        same(hypotheses, plain_beam(ruled, beams=beams, nbest=nbest, score=score), sentence=ruled, score=score)
        for hypothesis in hypotheses:
            assert hypothesis.tokens[: len(prefix)] == prefix[: sentence.maximum - 1]
            tokens = hypothesis.tokens if hypothesis.cut else (*hypothesis.tokens, MARKS.end)
            assert hypothesis.log_prob == pytest.approx(sentence.totals(tokens)[-1], rel=1e-12)  # including the prefix


@thorough
@given(task=tasks(longest=6, sentences=3), beams=st.integers(1, 5))
def test_empty_prefixes_change_nothing(task: Task, beams: int) -> None:
    rule = Prefix([()] * len(task.maximum))
    assert beam(task, [rule], beams=beams, nbest=3, score=Scoring(0.6)) == beam(
        task, [], beams=beams, nbest=3, score=Scoring(0.6)
    )


@pytest.mark.parametrize("size", [1, 2, 3])
@thorough
@given(task=tasks(longest=9, sentences=4), beams=st.integers(1, 5), nbest=st.integers(1, 6), score=SCORINGS)
def test_hypotheses_that_repeat_nothing_are_the_plain_beams(
    size: int, task: Task, beams: int, nbest: int, score: Scoring
) -> None:
    results = beam(task, [NoRepeat(size)], beams=beams, nbest=nbest, score=score)
    for hypotheses, sentence in zip(results, task.sentences, strict=True):
        assert all(repeats_nothing(size)(hypothesis.tokens) for hypothesis in hypotheses)
        ruled = Ruled(sentence, repeats_nothing(size))
        same(hypotheses, plain_beam(ruled, beams=beams, nbest=nbest, score=score), sentence=ruled, score=score)


@thorough
@given(
    problem=prefixed(),
    size=st.integers(1, 3),
    beams=st.integers(1, 5),
    nbest=st.integers(1, 6),
    score=SCORINGS,
    is_reversed=st.booleans(),
)
def test_constraints_together_all_hold_in_any_order(
    problem: tuple[Task, list[Words]], size: int, beams: int, nbest: int, score: Scoring, is_reversed: bool
) -> None:
    task, prefixes = problem
    rules: list[Constraint] = [NoRepeat(size), Prefix(prefixes)]
    results = beam(task, rules[::-1] if is_reversed else rules, beams=beams, nbest=nbest, score=score)
    for hypotheses, sentence, prefix in zip(results, task.sentences, prefixes, strict=True):
        ruled = Ruled(sentence, all_of(begins_with(prefix), repeats_nothing(size)))
        same(hypotheses, plain_beam(ruled, beams=beams, nbest=nbest, score=score), sentence=ruled, score=score)


@thorough
@given(problem=prefixed(), size=st.integers(1, 3), beams=st.integers(1, 4))
def test_a_search_that_stops_after_some_keeps_its_constraints(
    problem: tuple[Task, list[Words]], size: int, beams: int
) -> None:
    task, prefixes = problem
    rules: list[Constraint] = [Prefix(prefixes), NoRepeat(size)]
    results = beam(task, rules, beams=beams, nbest=2, score=Scoring(1.0), stop_after=1)
    for hypotheses, sentence, prefix in zip(results, task.sentences, prefixes, strict=True):
        for hypothesis in hypotheses:
            assert hypothesis.tokens[: len(prefix)] == prefix[: sentence.maximum - 1]
            assert repeats_nothing(size)(hypothesis.tokens)


@thorough
@given(problem=prefixed(), size=st.integers(1, 3))
def test_greedy_search_keeps_constraints_too(problem: tuple[Task, list[Words]], size: int) -> None:
    task, prefixes = problem
    rules: list[Constraint] = [Prefix(prefixes), NoRepeat(size)]
    expected = [
        plain_greedy(Ruled(sentence, all_of(begins_with(prefix), repeats_nothing(size))))
        for sentence, prefix in zip(task.sentences, prefixes, strict=True)
    ]
    assume(any(expected))
    for hypotheses, plain in zip(greedy(task, rules), expected, strict=True):
        for actual, reference in zip(hypotheses, plain, strict=True):
            assert (actual.tokens, actual.cut) == (reference.tokens, reference.cut)
            assert actual.score == actual.log_prob == pytest.approx(reference.log_prob, rel=1e-12)


@thorough
@given(problem=prefixed(), size=st.integers(1, 3))
def test_one_beam_under_constraints_is_greedy(problem: tuple[Task, list[Words]], size: int) -> None:
    """Also where they contradict each other and no token is allowed."""
    task, prefixes = problem
    rules: list[Constraint] = [Prefix(prefixes), NoRepeat(size)]
    results = beam(task, rules, beams=1, nbest=1, score=Scoring())
    assert [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in results] == [
        [hypothesis.tokens for hypothesis in hypotheses] for hypotheses in greedy(task, rules)
    ]


def test_if_no_token_is_allowed_there_is_no_hypothesis() -> None:
    """All words are used up before the minimum length: neither search returns a partial hypothesis."""
    tables = torch.full((1, VOCABULARY, VOCABULARY, VOCABULARY), -1.0, dtype=torch.float64)
    task = Task(tables, [6], [6], torch.zeros(1, VOCABULARY, VOCABULARY, 1), [1])
    assert greedy(task, [NoRepeat(1)]) == beam(task, [NoRepeat(1)], beams=2, nbest=2, score=Scoring()) == [[]]


def test_a_prefix_with_a_forbidden_token_has_no_hypotheses_and_does_not_affect_other_sentences() -> None:
    tables = torch.full((2, VOCABULARY, VOCABULARY, VOCABULARY), -1.0, dtype=torch.float64)
    task = Task(tables, [4, 4], [0, 0], torch.zeros(2, VOCABULARY, VOCABULARY, 1), [1, 1])
    none, some = beam(task, [Prefix([(MARKS.never[0],), (3,)])], beams=2, nbest=2, score=Scoring())
    assert none == []
    assert [hypothesis.tokens for hypothesis in some] == [(3,), (3, 1)]
