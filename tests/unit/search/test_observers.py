"""Observers see exactly what search compared and kept; sentences that are given up leave the batch."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.laws.test_oracle import MARKS, Sentence, Task, allowed, start, tasks, thorough, trigram

from calque.search.beam import BestK, Expansion, Goal, beam_search
from calque.search.diverse import Diverse
from calque.search.greedy import greedy_search
from calque.search.observers import NO_HOOKS, Hooks, SearchStep
from calque.search.required_phrases import Required
from calque.search.sampling import Sampling, sample_search
from calque.search.scoring import Scoring
from calque.search.step import Hypothesis, Live

Tokens = tuple[int, ...]


class Steps:
    """Keeps all steps."""

    def __init__(self) -> None:
        self.steps: list[SearchStep] = []

    def search_step(self, step: SearchStep) -> None:
        self.steps.append(step)

    def of(self, sentence: int) -> list[tuple[SearchStep, int]]:
        """The steps of a sentence, with its row."""
        return [(step, rows.index(sentence)) for step in self.steps if sentence in (rows := step.sentence.tolist())]


def beam(task: Task, expansion: Expansion, *, hooks: Hooks = NO_HOOKS) -> list[list[Hypothesis]]:
    return beam_search(
        trigram,
        start(task),
        (task.tables, task.looks),
        expansion=expansion,
        goal=Goal(Scoring(0.6), nbest=2),
        limits=task.limits,
        marks=MARKS,
        source_lengths=torch.tensor(task.sources),
        hooks=hooks,
    )


def live_tokens(live: Live, row: int) -> list[tuple[Tokens, float]]:
    rows = zip(live.tokens[row].tolist(), live.log_probs[row].tolist(), strict=True)
    return [(tuple(tokens), value) for tokens, value in rows if value > -torch.inf]


def best_extensions(sentence: Sentence, hypotheses: list[Tokens], *, length: int, count: int) -> dict[Tokens, float]:
    """The best one-token extensions of hypotheses, on plain lists."""
    extensions = [(*tokens, token) for tokens in hypotheses for token in allowed(sentence, length)]
    values = {tokens: sentence.totals(tokens)[-1] for tokens in extensions}
    ranked = sorted((tokens for tokens in values if values[tokens] > -torch.inf), key=lambda tokens: -values[tokens])
    return {tokens: values[tokens] for tokens in ranked[:count]}


@thorough
@given(task=tasks(longest=6), beams=st.integers(1, 4))
def test_beam_search_tells_its_candidates_and_what_became_of_them(task: Task, beams: int) -> None:
    observer = Steps()
    watched = beam(task, BestK(beams), hooks=Hooks(observer))
    assert watched == beam(task, BestK(beams)), "watching changes nothing"
    for number, sentence in enumerate(task.sentences):
        before: list[Tokens] = [()]
        alive = before
        steps = observer.of(number)
        assert [step.length for step, _ in steps] == list(range(1, len(steps) + 1))
        assert [bool(step.done[row]) for step, row in steps] == [False] * (len(steps) - 1) + [True]
        for step, row in steps:
            pairs = zip(*(part[row].tolist() for part in step.candidates), strict=True)
            told = {(*before[parent], token): value for value, parent, token in pairs if value > -torch.inf}
            expected = best_extensions(sentence, alive, length=step.length, count=2 * beams)
            assert sorted(told.values()) == pytest.approx(sorted(expected.values()))
            assert all(sentence.totals(tokens)[-1] == pytest.approx(value) for tokens, value in told.items())
            kept, ended = live_tokens(step.live, row), live_tokens(step.ended, row)
            assert all(told[tokens] == value for tokens, value in (*kept, *ended))
            assert all(tokens[-1] != MARKS.end for tokens, _ in kept)
            assert all(tokens[-1] == MARKS.end for tokens, _ in ended)
            assert torch.equal(step.scores[row] > -torch.inf, step.ended.log_probs[row] > -torch.inf)
            parents = step.parents[row].tolist()
            assert all(tokens[:-1] == before[parent] for (tokens, _), parent in zip(kept, parents, strict=False))
            before, alive = [tuple(tokens) for tokens in step.live.tokens[row].tolist()], [tokens for tokens, _ in kept]


@pytest.mark.parametrize("name", ["diverse", "required", "greedy", "sampling"])
@thorough
@given(task=tasks(longest=6, impossible=False))
def test_every_search_is_the_same_if_it_is_watched(name: str, task: Task) -> None:
    def run(hooks: Hooks) -> list[list[Hypothesis]]:
        count = len(task.tables)
        follows = torch.ones(task.tables.shape[-1], dtype=torch.bool)
        common: dict[str, Any] = {"limits": task.limits, "marks": MARKS, "hooks": hooks}
        match name:
            case "diverse":
                return beam(task, Diverse(4, groups=2, strength=0.5), hooks=hooks)
            case "required":
                return beam(task, Required(3, [[[3]]] * count, follows=follows, opens=follows), hooks=hooks)
            case "greedy":
                return greedy_search(trigram, start(task), (task.tables, task.looks), **common)
            case _:
                draw = {"sampling": Sampling(), "draws": 3, "streams": torch.arange(count)}
                return sample_search(trigram, start(task), (task.tables, task.looks), **draw, **common)

    observer = Steps()
    results = run(Hooks(observer))
    assert results == run(NO_HOOKS)
    for number, hypotheses in enumerate(results):
        steps = observer.of(number)
        ended = {tokens[: tokens.index(MARKS.end)] for step, row in steps for tokens, _ in live_tokens(step.ended, row)}
        assert {hypothesis.tokens for hypothesis in hypotheses if not hypothesis.cut} <= ended
        for step, row in steps:
            values, parents, tokens = (part[row].tolist() for part in step.candidates)
            assert len(values) == len(parents) == len(tokens)
            assert max(parents) <= (0 if step.length == 1 and name != "sampling" else max(parents))


@pytest.mark.parametrize("name", ["beam", "greedy", "sampling"])
def test_a_sentence_that_is_given_up_leaves_the_batch(name: str) -> None:
    tables = -torch.rand(4, 5, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    task = Task(tables, [9] * 4, [9] * 4, torch.ones(4, 5, 5, 3), [3] * 4)
    sizes: list[int] = []

    def step(tokens: Any, state: Any, context: Any) -> Any:
        sizes.append(len(context[0]))
        return trigram(tokens, state, context)

    def run(hooks: Hooks) -> list[list[Hypothesis]]:
        arguments = (step, start(task), (task.tables, task.looks))
        common: dict[str, Any] = {"limits": task.limits, "marks": MARKS, "hooks": hooks}
        if name == "beam":
            options = {"expansion": BestK(2), "goal": Goal(Scoring()), "source_lengths": torch.tensor(task.sources)}
            return beam_search(*arguments, **options, **common)
        if name == "greedy":
            return greedy_search(*arguments, **common)
        draw = {"sampling": Sampling(), "draws": 2, "streams": torch.arange(4)}
        return sample_search(*arguments, **draw, **common)

    expected = run(NO_HOOKS)
    sizes.clear()
    calls: list[int] = []

    def give_up() -> list[int]:
        calls.append(1)
        return {3: [1], 5: [1, 3]}.get(len(calls), [1] if 3 < len(calls) < 5 else [])

    results = run(Hooks(give_up=give_up))
    assert [results[0], results[2]] == [expected[0], expected[2]]
    assert results[1] == results[3] == []
    assert sizes == [4] * 3 + [3] * 2 + [2] * 4
