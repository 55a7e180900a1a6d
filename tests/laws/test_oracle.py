"""8. Oracle: search on a trigram scorer against full enumeration, and against a beam search on plain lists.

The scorer has a state (the last two tokens) and a context (one table per sentence), so that mixed-up states or contexts
change the results.
"""

import itertools
import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from calque.search.beam import BestK, Goal, beam_search
from calque.search.greedy import greedy_search
from calque.search.scoring import Score, Scoring, SentenceLengths
from calque.search.step import Hypothesis, Limits, Marks, StepOutput

MARKS = Marks(start=0, end=2, never=(0,))
WORDS = (1, 3, 4)  # on both sides of the end mark
VOCABULARY = 5
IMPOSSIBLE = -torch.inf

thorough = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SOURCE = 3  # positions at most
ZERO_OR_MORE = st.sampled_from([0.0, 0.0, 0.5, 1.0]) | st.floats(0, 2)
SCORINGS = st.builds(
    Scoring, ZERO_OR_MORE, ZERO_OR_MORE, ZERO_OR_MORE, ZERO_OR_MORE, st.sampled_from(["gnmt", "plain"])
)


class Task(NamedTuple):
    """Sentences to search: the table log P(next | previous two) of each, and its limits."""

    tables: Tensor  # [B,V,V,V]
    maximum: list[int]
    minimum: list[int]
    looks: Tensor  # [B,V,V,S], attention given the previous two tokens
    sources: list[int]  # lengths

    @property
    def limits(self) -> Limits:
        return Limits(torch.tensor(self.maximum), torch.tensor(self.minimum))

    @property
    def sentences(self) -> list["Sentence"]:
        parts = zip(self.tables.tolist(), self.maximum, self.minimum, self.looks.tolist(), self.sources, strict=True)
        return [Sentence(*row) for row in parts]


class Sentence(NamedTuple):
    """One sentence of a task, in plain lists."""

    table: list[list[list[float]]]
    maximum: int
    minimum: int
    looks: list[list[list[float]]]
    source: int

    def totals(self, tokens: tuple[int, ...]) -> list[float]:
        """The log-probability of every prefix, shortest first."""
        history = (MARKS.start, MARKS.start, *tokens)
        steps = (
            self.table[first][second][third]
            for first, second, third in zip(history, history[1:], history[2:], strict=False)
        )
        return list(itertools.accumulate(steps))


@st.composite
def tasks(draw, *, longest: int = 4, sentences: int = 3, impossible: bool = True) -> Task:
    """Tables of negative numbers (search requires only that log-probabilities never increase).

    Coarse values produce ties; with small values the length matters more than the words.
    """
    count = draw(st.integers(1, sentences))
    size = count * VOCABULARY**3
    raw = torch.tensor(list(draw(st.binary(min_size=size, max_size=size))), dtype=torch.float64)
    values = draw(st.sampled_from([-(raw % 7) / 2, -(raw % 3) / 2, -raw / 37, -(raw % 16) / 500]))
    if impossible:
        values = values.masked_fill(raw > 240, IMPOSSIBLE)
    maximum = draw(st.lists(st.integers(2, longest), min_size=count, max_size=count))
    minimum = draw(st.lists(st.integers(0, longest), min_size=count, max_size=count))
    sources = draw(st.lists(st.integers(1, SOURCE), min_size=count, max_size=count))
    looks = (raw.view(count, VOCABULARY, VOCABULARY, VOCABULARY)[..., :SOURCE] // 7) % 11 / 10  # including zeros
    is_position = torch.arange(SOURCE) < torch.tensor(sources)[:, None]
    looks = looks * is_position[:, None, None]
    return Task(values.view(count, VOCABULARY, VOCABULARY, VOCABULARY), maximum, minimum, looks, sources)


def trigram(tokens: Tensor, state: Tensor, context: tuple[Tensor, Tensor]) -> tuple[StepOutput, Tensor]:
    """A step whose state [N,2] is the last two tokens and whose context is the tables [B,V,V,V] and [B,V,V,S]."""
    tables, looks = context
    state = torch.stack([state[:, 1], tokens], dim=1)
    sentence = torch.arange(len(tokens)) // (len(tokens) // len(tables))
    index = (sentence, state[:, 0], state[:, 1])
    return StepOutput(tables[index], looks[index]), state


def start(task: Task) -> Tensor:
    return torch.full((len(task.tables), 2), MARKS.start)


def search(
    task: Task, *, beams: int, nbest: int, score: Score, step=trigram, stop_after: int | None = None
) -> list[list[Hypothesis]]:
    return beam_search(
        step,
        start(task),
        (task.tables, task.looks),
        expansion=BestK(beams),
        goal=Goal(score, nbest, stop_after),
        limits=task.limits,
        marks=MARKS,
        source_lengths=torch.tensor(task.sources),
    )


def allowed(sentence: Sentence, length: int) -> list[int]:
    """The tokens allowed as token number `length`: no end before the minimum, and only the end where it is forced."""
    must_end = length == sentence.minimum == sentence.maximum
    return sorted([*([] if must_end else WORDS), *([MARKS.end] if length >= sentence.minimum else [])])


def rank(sentence: Sentence, tokens: tuple[int, ...], score: Scoring) -> float:
    """log P / lp + β Σᵢ log min(Σⱼ pᵢⱼ, 1) + γ |X| / |Y| + ρ |Y|, in plain numbers; |Y| includes the end mark."""
    length = len(tokens)
    penalty = ((5 + length) / 6) ** score.alpha if score.normalisation == "gnmt" else length**score.alpha
    history = (MARKS.start, MARKS.start, *tokens)
    covered = [
        sum(sentence.looks[history[j]][history[j + 1]][i] for j in range(length)) for i in range(sentence.source)
    ]
    coverage = sum(math.log(min(max(position, 1e-6), 1)) for position in covered)
    end_term = sentence.source / length
    total = sentence.totals(tokens)[-1]
    return total / penalty + score.beta * coverage + score.gamma * end_term + score.reward * length


def enumerate_all(sentence: Sentence, *, nbest: int, score: Scoring) -> list[Hypothesis]:
    """The n best of all possible hypotheses: finished ones by score, then those cut at the maximum length.

    Ties: the shorter first, then the one with the better prefix, then the lower token.
    """
    finished, cut = [], []
    for size in range(sentence.maximum):
        for words in itertools.product(WORDS, repeat=size):
            ended = (*words, MARKS.end)
            if sentence.minimum <= size + 1 and sentence.totals(ended)[-1] > IMPOSSIBLE:
                finished.append(ended)
            elif size + 1 == sentence.maximum:
                cut.append(words)

    def order(tokens: tuple[int, ...]):
        totals = sentence.totals(tokens)
        return -rank(sentence, tokens, score), len(tokens), [-total for total in reversed(totals)], tokens

    def hypothesis(tokens: tuple[int, ...], *, cut: bool) -> Hypothesis:
        log_prob = sentence.totals(tokens)[-1]
        return Hypothesis(tokens if cut else tokens[:-1], rank(sentence, tokens, score), log_prob, cut=cut)

    hypotheses = [hypothesis(tokens, cut=False) for tokens in sorted(finished, key=order)]
    hypotheses += [hypothesis(tokens, cut=True) for tokens in sorted(cut, key=order)]
    return [result for result in hypotheses if result.log_prob > IMPOSSIBLE][:nbest]


def plain_beam(sentence: Sentence, *, beams: int, nbest: int, score: Scoring) -> list[Hypothesis]:
    """A beam search for one sentence on plain lists, always up to the maximum length."""
    live: list[tuple[int, ...]] = [()]
    finished: list[Hypothesis] = []
    for length in range(1, sentence.maximum + 1):
        previous = live
        extended = [(*tokens, token) for tokens in live for token in allowed(sentence, length)]
        extended = [tokens for tokens in extended if sentence.totals(tokens)[-1] > IMPOSSIBLE]
        extended = sorted(extended, key=lambda tokens: -sentence.totals(tokens)[-1])  # stable: ties keep their order
        for tokens in extended[:beams]:
            if tokens[-1] == MARKS.end:
                total = sentence.totals(tokens)[-1]
                finished.append(Hypothesis(tokens[:-1], rank(sentence, tokens, score), total, cut=False))
        live = [tokens for tokens in extended if tokens[-1] != MARKS.end][:beams]
    ended = {hypothesis.tokens for hypothesis in finished}
    totals = [(tokens, sentence.totals(tokens)[-1]) for tokens in previous if tokens not in ended]
    cut = [Hypothesis(tokens, rank(sentence, tokens, score), total, cut=True) for tokens, total in totals]
    finished, cut = (sorted(group, key=lambda hypothesis: -hypothesis.score) for group in (finished, cut))
    return (finished + cut)[:nbest]


def same(hypotheses: list[Hypothesis], expected: list[Hypothesis], *, sentence: Sentence, score: Scoring) -> None:
    """The same hypotheses in the same order.

    With scores of several terms, two hypotheses that are equal up to rounding may swap places.
    """
    assert [hypothesis.cut for hypothesis in hypotheses] == [hypothesis.cut for hypothesis in expected]
    for actual, reference in zip(hypotheses, expected, strict=True):
        assert actual.score == pytest.approx(reference.score, rel=1e-9, abs=1e-9)
        if score[1:4] == (0, 0, 0) or actual.tokens == reference.tokens:
            assert actual.tokens == reference.tokens
            assert actual.log_prob == pytest.approx(reference.log_prob, rel=1e-12, abs=1e-12)
        else:
            tokens = actual.tokens if actual.cut else (*actual.tokens, MARKS.end)
            assert actual.score == pytest.approx(rank(sentence, tokens, score), rel=1e-9, abs=1e-9)
    assert len(set(hypotheses)) == len(hypotheses)


def wide(longest: int) -> int:
    """A beam as large as the number of candidates in one step can be."""
    return len(WORDS) ** (longest - 1) * (len(WORDS) + 1)


@thorough
@given(task=tasks(), score=SCORINGS, nbest=st.sampled_from([1, 2, 5, 200]))
def test_a_wide_beam_is_full_enumeration(task: Task, score: Scoring, nbest: int) -> None:
    results = search(task, beams=wide(4), nbest=nbest, score=score)
    for hypotheses, sentence in zip(results, task.sentences, strict=True):
        same(hypotheses, enumerate_all(sentence, nbest=nbest, score=score), sentence=sentence, score=score)


@pytest.mark.full
@settings(thorough, max_examples=1000)
@given(task=tasks(longest=6, sentences=4), score=SCORINGS, nbest=st.sampled_from([1, 7, 5000]))
def test_a_wide_beam_is_full_enumeration_of_longer_hypotheses(task: Task, score: Scoring, nbest: int) -> None:
    results = search(task, beams=wide(6), nbest=nbest, score=score)
    for hypotheses, sentence in zip(results, task.sentences, strict=True):
        same(hypotheses, enumerate_all(sentence, nbest=nbest, score=score), sentence=sentence, score=score)


@thorough
@given(task=tasks(longest=8, sentences=5), score=SCORINGS, beams=st.integers(1, 6), nbest=st.integers(1, 8))
def test_a_batched_beam_is_the_plain_beam_of_each_sentence(task: Task, score: Scoring, beams: int, nbest: int) -> None:
    results = search(task, beams=beams, nbest=nbest, score=score)
    for hypotheses, sentence in zip(results, task.sentences, strict=True):
        same(hypotheses, plain_beam(sentence, beams=beams, nbest=nbest, score=score), sentence=sentence, score=score)


class Endless(NamedTuple):
    """A score whose bound never stops the search before the maximum length."""

    score: Scoring

    @property
    def needs_coverage(self) -> bool:
        return self.score.needs_coverage

    def finished(self, log_probs: Tensor, *, length: int, covered: Tensor | None, lengths: SentenceLengths) -> Tensor:
        return self.score.finished(log_probs, length=length, covered=covered, lengths=lengths)

    def bound(self, log_probs: Tensor, *, length: int, lengths: SentenceLengths) -> Tensor:
        return torch.full_like(log_probs, torch.inf)


@thorough
@given(task=tasks(longest=8, sentences=5), score=SCORINGS, beams=st.integers(1, 6), nbest=st.integers(1, 6))
def test_stopping_early_never_changes_the_result(task: Task, score: Scoring, beams: int, nbest: int) -> None:
    stopped = search(task, beams=beams, nbest=nbest, score=score)
    endless = search(task, beams=beams, nbest=nbest, score=Endless(score))
    for early, late in zip(stopped, endless, strict=True):
        scores = [hypothesis.score for hypothesis in late]
        assert [hypothesis.score for hypothesis in early] == pytest.approx(scores, rel=1e-9, abs=1e-9)
    if score[1:4] == (0, 0, 0):
        assert stopped == endless


@thorough
@given(task=tasks(longest=8, sentences=5), score=SCORINGS, beams=st.integers(1, 6), patience=st.integers(1, 3))
def test_stopping_after_a_number_of_hypotheses_never_gives_a_better_score(
    task: Task, score: Scoring, beams: int, patience: int
) -> None:
    exact = search(task, beams=beams, nbest=1, score=score)
    results = search(task, beams=beams, nbest=1, score=score, stop_after=patience * beams)
    for quick, best, sentence in zip(results, exact, task.sentences, strict=True):
        for hypothesis, best_hypothesis in zip(quick, best, strict=True):
            assert (hypothesis.cut, -hypothesis.score) >= (best_hypothesis.cut, -best_hypothesis.score - 1e-9)
            tokens = hypothesis.tokens if hypothesis.cut else (*hypothesis.tokens, MARKS.end)
            assert hypothesis.score == pytest.approx(rank(sentence, tokens, score), rel=1e-9, abs=1e-9)


def test_stopping_early_saves_steps() -> None:
    tables = torch.full((1, VOCABULARY, VOCABULARY, VOCABULARY), -5.0, dtype=torch.float64)
    tables[..., MARKS.end] = -0.1
    taken = []

    def counted(tokens, state, context):
        taken.append(len(tokens))
        return trigram(tokens, state, context)

    task = Task(tables, [50], [0], torch.zeros(1, VOCABULARY, VOCABULARY, SOURCE), [SOURCE])
    search(task, beams=2, nbest=1, score=Scoring(1.0), step=counted)
    assert len(taken) == 1


@thorough
@given(task=tasks(longest=8, sentences=5), blocked=st.sampled_from([(), (1,), (1, 3), (1, 3, 4)]))
def test_one_beam_without_normalisation_is_greedy(task: Task, blocked: tuple[int, ...]) -> None:
    """Also where no token may follow: `blocked` words are dead ends."""
    task.tables[:, :, list(blocked)] = IMPOSSIBLE
    greedy = greedy_search(trigram, start(task), (task.tables, task.looks), limits=task.limits, marks=MARKS)
    beam = search(task, beams=1, nbest=1, score=Scoring())
    for expected, hypotheses, sentence in zip(greedy, beam, task.sentences, strict=True):
        same(hypotheses, expected, sentence=sentence, score=Scoring())


@thorough
@given(task=tasks(longest=8, sentences=5), score=SCORINGS, beams=st.integers(1, 6), nbest=st.integers(1, 6))
def test_scoring_a_hypothesis_again_gives_its_score(task: Task, score: Scoring, beams: int, nbest: int) -> None:
    results = search(task, beams=beams, nbest=nbest, score=score)
    for hypotheses, sentence in zip(results, task.sentences, strict=True):
        for hypothesis in hypotheses:
            tokens = hypothesis.tokens if hypothesis.cut else (*hypothesis.tokens, MARKS.end)
            total = sentence.totals(tokens)[-1]
            assert hypothesis.log_prob == pytest.approx(total, rel=1e-12)
            assert hypothesis.score == pytest.approx(rank(sentence, tokens, score), rel=1e-9, abs=1e-9)


@thorough
@given(task=tasks(longest=8, sentences=5), beams=st.integers(1, 6))
def test_hypotheses_keep_their_limits_and_the_marks(task: Task, beams: int) -> None:
    results = search(task, beams=beams, nbest=beams, score=Scoring(0.6))
    for hypotheses, sentence in zip(results, task.sentences, strict=True):
        assert [hypothesis.cut for hypothesis in hypotheses] == sorted(hypothesis.cut for hypothesis in hypotheses)
        assert len({hypothesis.tokens for hypothesis in hypotheses if hypothesis.cut}) == sum(
            hypothesis.cut for hypothesis in hypotheses
        )
        for hypothesis in hypotheses:
            assert set(hypothesis.tokens) <= set(WORDS)
            size = len(hypothesis.tokens) + 1
            assert size == sentence.maximum if hypothesis.cut else sentence.minimum <= size <= sentence.maximum


@thorough
@given(task=tasks(longest=6, sentences=4, impossible=False), beams=st.integers(1, 6), score=SCORINGS)
def test_if_minimum_is_maximum_all_hypotheses_end_there(task: Task, beams: int, score: Scoring) -> None:
    exact = task._replace(minimum=task.maximum)
    greedy = greedy_search(trigram, start(exact), (exact.tables, exact.looks), limits=exact.limits, marks=MARKS)
    for results in (search(exact, beams=beams, nbest=beams, score=score), greedy):
        for hypotheses, maximum in zip(results, exact.maximum, strict=True):
            assert {(len(hypothesis.tokens) + 1, hypothesis.cut) for hypothesis in hypotheses} == {(maximum, False)}
