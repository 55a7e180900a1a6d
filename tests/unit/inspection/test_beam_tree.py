"""The beam tree against a search on plain lists that keeps everything, for every scoring term."""

import math
from collections import Counter
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.laws.test_oracle import (
    IMPOSSIBLE,
    MARKS,
    SCORINGS,
    Sentence,
    Task,
    allowed,
    rank,
    start,
    tasks,
    thorough,
    trigram,
)

from calque.inspection.beam_tree import ROOT, BeamRecorder, BeamTree, TreeCandidate
from calque.search.beam import BestK, Expansion, Goal, beam_search
from calque.search.diverse import Diverse
from calque.search.observers import Hooks
from calque.search.required_phrases import Required
from calque.search.scoring import Scoring
from calque.search.step import Hypothesis

Tokens = tuple[int, ...]


class Compared(NamedTuple):
    """A candidate of the plain search."""

    tokens: Tokens
    fate: str
    reason: str | None


def plain_tree(sentence: Sentence, *, beams: int, score: Scoring, nbest: int) -> list[list[Compared]]:
    """The 2K best candidates of every step and what becomes of them, up to the maximum length."""
    live: list[Tokens] = [()]
    ended_scores: list[float] = []
    steps = []
    for length in range(1, sentence.maximum + 1):
        extended = [(*tokens, token) for tokens in live for token in allowed(sentence, length)]
        extended = [tokens for tokens in extended if sentence.totals(tokens)[-1] > IMPOSSIBLE]
        extended = sorted(extended, key=lambda tokens: -sentence.totals(tokens)[-1])[: 2 * beams]
        continuing = [tokens for tokens in extended if tokens[-1] != MARKS.end][:beams]
        ended_scores += [rank(sentence, tokens, score) for tokens in extended[:beams] if tokens[-1] == MARKS.end]
        goal = sorted(ended_scores, reverse=True)[nbest - 1] if len(ended_scores) >= nbest else -math.inf
        live = [tokens for tokens in continuing if highest_score(sentence, tokens, score) > goal]
        step = []
        for place, tokens in enumerate(extended):
            if tokens[-1] == MARKS.end:
                step.append(Compared(tokens, *(("ended", None) if place < beams else ("dropped", "end-rank"))))
            else:
                reason = "bound" if tokens in continuing else "rank"
                step.append(Compared(tokens, *(("kept", None) if tokens in live else ("dropped", reason))))
        steps.append(step)
    return steps


def highest_score(sentence: Sentence, tokens: Tokens, score: Scoring) -> float:
    """The score if all later tokens had probability 1, every term at its best over the lengths that are left."""
    size = sentence.maximum  # the penalty grows with the length
    penalty = ((5 + size) / 6) ** score.alpha if score.normalisation == "gnmt" else size**score.alpha
    total, end_term = sentence.totals(tokens)[-1], score.gamma * sentence.source / (len(tokens) + 1)
    return total / penalty + end_term + score.reward * size


def searched(
    task: Task, *, expansion: Expansion, score: Scoring, nbest: int, stop_after: int | None = None
) -> tuple[list[Hypothesis], BeamTree]:
    """One sentence's hypotheses, and the tree of the search for them."""
    groups, diversity = (expansion.groups, expansion.strength) if isinstance(expansion, Diverse) else (1, 0.0)
    exact = stop_after is None
    recorder = BeamRecorder(score, nbest=nbest, end=MARKS.end, stops_exactly=exact, groups=groups, diversity=diversity)
    (hypotheses,) = beam_search(
        trigram,
        start(task),
        (task.tables, task.looks),
        expansion=expansion,
        goal=Goal(score, nbest, stop_after),
        limits=task.limits,
        marks=MARKS,
        source_lengths=torch.tensor(task.sources),
        hooks=Hooks(recorder),
    )
    return hypotheses, recorder.tree


def paths(tree: BeamTree) -> dict[int, Tokens]:
    """The tokens of every candidate, by its id."""
    tokens: dict[int, Tokens] = {ROOT: ()}
    for step in tree.steps:
        tokens |= {candidate.id: (*tokens[candidate.parent], candidate.token) for candidate in step.candidates}
    return tokens


def tokens_of(hypothesis: Hypothesis) -> Tokens:
    return hypothesis.tokens if hypothesis.cut else (*hypothesis.tokens, MARKS.end)


@thorough
@given(task=tasks(longest=7, sentences=1), score=SCORINGS, beams=st.integers(1, 5), nbest=st.integers(1, 3))
def test_the_tree_holds_every_candidate_with_its_fate_and_score(
    task: Task, score: Scoring, beams: int, nbest: int
) -> None:
    hypotheses, tree = searched(task, expansion=BestK(beams), score=score, nbest=nbest)
    (sentence,), tokens = task.sentences, paths(tree)
    plain = plain_tree(sentence, beams=beams, score=score, nbest=nbest)
    assert len(tree.steps) == sentence.maximum or tree.stop in ("bound", "exhausted")
    for step, expected in zip(tree.steps, plain[: len(tree.steps)], strict=True):
        compared = [Compared(tokens[item.id], item.fate, item.reason) for item in step.candidates]
        assert compared == expected
        for candidate in step.candidates:
            path = tokens[candidate.id]
            assert candidate.log_prob == pytest.approx(sentence.totals(path)[-1])
            assert (candidate.score is not None) == (candidate.fate == "ended")
            if candidate.score is not None:
                assert_terms(candidate, sentence, path, score)
    ended = [tokens[item.id] for step in tree.steps for item in step.candidates if item.fate == "ended"]
    assert {tokens_of(item) for item in hypotheses if not item.cut} <= set(ended)
    for hypothesis in hypotheses:
        path = tree.path(tokens_of(hypothesis))
        assert tuple(tokens[path[-1]]) == tokens_of(hypothesis) if path else tokens_of(hypothesis) == ()
        assert tree.lost_at(tokens_of(hypothesis)) is None


def assert_terms(candidate: TreeCandidate, sentence: Sentence, path: Tokens, score: Scoring) -> None:
    """Each term alone equals the score with the other settings at zero, and together they are the score."""
    assert candidate.score is not None
    parts = candidate.score
    length = rank(sentence, path, score._replace(beta=0, gamma=0, reward=0))
    assert parts.length == pytest.approx(length)
    assert parts.coverage == pytest.approx(rank(sentence, path, score._replace(gamma=0, reward=0)) - length, abs=1e-9)
    assert parts.end == pytest.approx(rank(sentence, path, score._replace(beta=0, reward=0)) - length, abs=1e-9)
    assert parts.reward == pytest.approx(rank(sentence, path, score._replace(beta=0, gamma=0)) - length, abs=1e-9)
    assert parts.total == pytest.approx(rank(sentence, path, score))


@thorough
@given(task=tasks(longest=7, sentences=1), score=SCORINGS, beams=st.integers(1, 5), nbest=st.integers(1, 3))
def test_the_reason_to_stop_is_true(task: Task, score: Scoring, beams: int, nbest: int) -> None:
    _, tree = searched(task, expansion=BestK(beams), score=score, nbest=nbest)
    (sentence,), last = task.sentences, tree.steps[-1]
    for step in tree.steps[:-1]:
        assert step.bound is not None and (step.best is None or step.bound > step.best)
    match tree.stop:
        case "maximum":
            assert last.length == sentence.maximum
        case "bound":
            assert last.bound is not None and last.best is not None and last.bound <= last.best
        case "exhausted":
            assert not any(candidate.fate == "kept" for candidate in last.candidates)
        case _:
            raise AssertionError(tree.stop)


@thorough
@given(task=tasks(longest=7, sentences=1), beams=st.integers(2, 5))
def test_an_answer_is_lost_where_a_narrower_beam_drops_its_beginning(task: Task, beams: int) -> None:
    hypotheses, _ = searched(task, expansion=BestK(beams), score=Scoring(0.6), nbest=1)
    for narrow in range(1, beams):
        _, tree = searched(task, expansion=BestK(narrow), score=Scoring(0.6), nbest=1)
        for hypothesis in hypotheses:
            answer, lost = tokens_of(hypothesis), tree.lost_at(tokens_of(hypothesis))
            plain = plain_tree(task.sentences[0], beams=narrow, score=Scoring(0.6), nbest=1)[: len(tree.steps)]
            kept = {item.tokens for step in plain for item in step if item.fate != "dropped"}
            assert lost == next((size for size in range(1, len(answer) + 1) if answer[:size] not in kept), None)


@pytest.mark.parametrize("kind", ["diverse", "required"])
@thorough
@given(task=tasks(longest=6, sentences=1, impossible=False))
def test_other_searches_have_trees_that_lead_to_their_answers(kind: str, task: Task) -> None:
    follows: Any = torch.ones(task.tables.shape[-1], dtype=torch.bool)
    expansion: Expansion = Diverse(4, groups=2, strength=0.5)
    if kind == "required":
        expansion = Required(3, [[[3]]], follows=follows, opens=follows)
    hypotheses, tree = searched(task, expansion=expansion, score=Scoring(0.6), nbest=2, stop_after=4)
    for hypothesis in hypotheses:
        if not hypothesis.cut:
            assert len(tree.path(tokens_of(hypothesis))) == len(tokens_of(hypothesis))
    assert tree.stop in ("count", "maximum", "exhausted")


def test_what_another_group_has_ended_is_a_duplicate() -> None:
    """Without a penalty both groups keep the same, and end with the same tokens."""
    tables = torch.full((1, 5, 5, 5), -3.0, dtype=torch.float64)
    tables[..., MARKS.end] = -0.5
    task = Task(tables, [4], [0], torch.zeros(1, 5, 5, 3), [3])
    _, tree = searched(task, expansion=Diverse(4, groups=2, strength=0.0), score=Scoring(), nbest=2)
    ends = [candidate for candidate in tree.steps[0].candidates if candidate.token == MARKS.end]
    assert [(candidate.fate, candidate.reason) for candidate in ends] == [("ended", None), ("dropped", "duplicate")]


@thorough
@given(task=tasks(longest=6, sentences=1), strength=st.sampled_from([0.0, 0.3, 2.0]))
def test_diverse_search_drops_for_the_reason_that_is_given(task: Task, strength: float) -> None:
    """Search is done a second time on plain lists, group by group: with its penalty, without it, and without groups."""
    beams, groups = 2, 2
    _, tree = searched(
        task, expansion=Diverse(beams * groups, groups=groups, strength=strength), score=Scoring(), nbest=1
    )
    (sentence,), tokens = task.sentences, paths(tree)
    live: list[list[Tokens]] = [[()]] * groups
    for step in tree.steps:
        pool, extended_groups, taken = [], [], Counter[int]()
        for group in live:
            extended = [(*before, token) for before in group for token in allowed(sentence, step.length)]
            extended = [path for path in extended if sentence.totals(path)[-1] > IMPOSSIBLE]

            def value(path: Tokens, taken: Counter[int] = taken) -> float:
                return sentence.totals(path)[-1] - (strength * taken[path[-1]] if path[-1] != MARKS.end else 0)

            compared = sorted(extended, key=lambda path: -value(path))[: 2 * beams]
            kept = [path for path in compared if path[-1] != MARKS.end][:beams]
            extended_groups.append(kept)
            pool.append((compared, kept))
            taken = taken + Counter(path[-1] for path in kept)
        everything = [path for compared, _ in pool for path in compared]
        shown = iter(step.candidates)
        for number, (compared, kept) in enumerate(pool, start=1):
            for place, path in enumerate(compared):
                candidate = next(shown)
                assert (tokens[candidate.id], candidate.group) == (path, number)
                if path[-1] == MARKS.end:
                    assert (candidate.fate == "ended" or candidate.reason == "duplicate") == (place < beams)
                    others = {other for other in everything if other != path}
                else:
                    assert (candidate.fate == "kept") == (path in kept)
                    others = {other for other in everything if other != path and other[-1] != MARKS.end}
                if candidate.fate != "dropped" or candidate.reason == "duplicate":
                    continue
                total = sentence.totals(path)[-1]
                better = {other for other in others if sentence.totals(other)[-1] >= total}
                if len(better) >= beams * groups:
                    assert candidate.reason == ("end-rank" if path[-1] == MARKS.end else "rank")
                elif path[-1] == MARKS.end:
                    assert candidate.reason == "end-group"
                else:
                    in_group = len(better & set(compared))
                    assert candidate.reason == ("group" if in_group >= beams else "penalty")
                    assert candidate.penalty > 0 or candidate.reason == "group"
        assert next(shown, None) is None
        live = extended_groups


def test_an_earlier_group_pushes_a_token_out_of_the_next_one() -> None:
    """Both groups of one beam would take token 3; the second takes 4, which is less probable."""
    tables = torch.full((1, 5, 5, 5), -9.0, dtype=torch.float64)
    tables[..., 3], tables[..., 4] = -0.1, -0.5
    task = Task(tables, [4], [0], torch.zeros(1, 5, 5, 3), [3])
    _, tree = searched(task, expansion=Diverse(2, groups=2, strength=1.0), score=Scoring(), nbest=1)
    first = {(item.group, item.token): item for item in tree.steps[0].candidates}
    assert [first[1, 3].fate, first[2, 4].fate] == ["kept", "kept"]
    assert (first[2, 3].reason, first[2, 3].penalty) == ("penalty", 1.0)
    assert first[1, 4].reason == "group"


def test_a_bank_keeps_what_is_less_probable() -> None:
    """Token 3 is required and improbable: a slot goes to the bank that has it, and a more probable one is dropped."""
    tables = torch.full((1, 6, 6, 6), -20.0, dtype=torch.float64)
    tables[..., 3], tables[..., 4], tables[..., 5] = -8.0, -2.0, -2.5
    task = Task(tables, [5], [0], torch.zeros(1, 6, 6, 3), [3])
    follows = torch.ones(6, dtype=torch.bool)
    _, tree = searched(task, expansion=Required(2, [[[3]]], follows=follows, opens=follows), score=Scoring(), nbest=1)
    first = {item.token: item for item in tree.steps[0].candidates}
    assert (first[3].fate, first[3].matched) == ("kept", 1)
    assert first[4].fate == "kept"
    assert (first[5].fate, first[5].reason) == ("dropped", "bank")
    assert {item.reason for token, item in first.items() if token not in (3, 4, 5)} <= {"rank"}
