"""Fast beam and greedy search against the clear versions, on the trigram scorer of test_oracle and on every model."""

from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from calque.layers.output import FullOutput
from calque.layers.shortlist import WordLists, masked_log_probs
from calque.models.model import Model
from calque.objectives.decoding_step import decoding_step, listed_step
from calque.search import step as step_module
from calque.search.beam import BestK, Goal, beam_search
from calque.search.fast_beam import fast_beam_search
from calque.search.fixed_beam import Eager, FixedStep, FixedSteps, fixed_beam_search, room_for
from calque.search.greedy import fast_greedy_search, greedy_search
from calque.search.scoring import Scoring
from calque.search.step import Best, BestStep, Limits, StepOutput
from calque.tensors import Slots, best_candidates, select_rows, with_slots
from tests.laws import laws
from tests.laws.models import BEAMS, MODELS, SENTENCES, build, source, target
from tests.laws.test_oracle import MARKS, SCORINGS, Task, start, tasks, thorough, trigram


class Trigram:
    """The trigram scorer as a `BestStep`; it counts the hypotheses that it reads."""

    def __init__(self) -> None:
        self.rows = 0

    def __call__(self, tokens: Tensor, state: Tensor, context: Any, /) -> Any:
        self.rows += len(tokens)
        return trigram(tokens, state, context)

    def best(
        self, tokens: Tensor, state: Tensor, context: Any, *, slots: Slots | None, count: int, end: int
    ) -> tuple[Best, Tensor]:
        self.rows += len(tokens)
        tables, looks = context
        sentence = torch.arange(len(tokens)) // (len(tokens) // len(tables)) if slots is None else slots.sentences
        output, state = trigram(tokens, state, (tables[sentence], looks[sentence]))
        return Best(*best_candidates(output.log_probs, count=count), output.log_probs[:, end]), state


def search_arguments(task: Task) -> dict[str, Any]:
    return {"limits": task.limits, "marks": MARKS, "source_lengths": torch.tensor(task.sources)}


@thorough
@given(
    task=tasks(longest=7, sentences=5),
    score=SCORINGS,
    beams=st.integers(1, 4),
    nbest=st.integers(1, 3),
    stop_after=st.sampled_from([None, None, 2]),
    removed=st.sampled_from([1, 8]),  # 1: finished sentences stay in the batch
)
def test_fast_beam_search_finds_what_the_clear_one_finds(
    task: Task, score: Scoring, beams: int, nbest: int, stop_after: int | None, removed: int
) -> None:
    goal = Goal(score._replace(beta=0.0), min(nbest, beams), stop_after)
    context, clear, fast = (task.tables, task.looks), Trigram(), Trigram()
    expected = beam_search(clear, start(task), context, expansion=BestK(beams), goal=goal, **search_arguments(task))
    with mock.patch.object(step_module, "REMOVED", removed):
        actual = fast_beam_search(fast, start(task), context, beams=beams, goal=goal, **search_arguments(task))
    assert actual == expected
    assert fast.rows <= clear.rows


@thorough
@given(task=tasks(longest=7, sentences=5), removed=st.sampled_from([1, 8]))
def test_fast_greedy_search_finds_what_the_clear_one_finds(task: Task, removed: int) -> None:
    arguments = {"limits": task.limits, "marks": MARKS}
    context = (task.tables, task.looks)
    expected = greedy_search(trigram, start(task), context, **arguments)
    with mock.patch.object(step_module, "REMOVED", removed):
        assert fast_greedy_search(Trigram(), start(task), context, **arguments) == expected


@pytest.mark.parametrize("beams", [1, 2, 4])
def test_few_of_many_words_and_sentences(beams: int, seed: int) -> None:
    """40 words, of which a hypothesis has 5 to 11 compared; 20 sentences, some of which wait for the others."""
    generator = torch.Generator().manual_seed(seed)
    tables = torch.randn(20, 40, 40, 40, generator=generator, dtype=torch.float64).log_softmax(dim=-1)
    maximum = torch.randint(2, 12, (20,), generator=generator)
    limits = Limits(maximum, torch.randint(0, 5, (20,), generator=generator).clamp(max=maximum))
    context, state = (tables, torch.zeros(20, 40, 40, 3)), torch.full((20, 2), MARKS.start)
    arguments = {"limits": limits, "marks": MARKS, "source_lengths": torch.full((20,), 3)}
    for score in (Scoring(), Scoring(0.6), Scoring(1.0, normalisation="plain"), Scoring(0.6, reward=0.5)):
        goal, clear, fast = Goal(score, beams), Trigram(), Trigram()
        expected = beam_search(clear, state, context, expansion=BestK(beams), goal=goal, **arguments)
        assert fast_beam_search(fast, state, context, beams=beams, goal=goal, **arguments) == expected


def test_a_sentence_whose_probabilities_are_not_numbers_has_a_result_of_its_own() -> None:
    tables = torch.full((3, 5, 5, 5), -1.0, dtype=torch.float64)
    tables[1] = torch.nan
    task = Task(tables, [4, 4, 4], [0, 0, 0], torch.zeros(3, 5, 5, 3), [3, 3, 3])
    arguments = {"beams": 2, "goal": Goal(Scoring()), **search_arguments(task)}
    for nothing in (tables, torch.full_like(tables, torch.nan)):
        results = fast_beam_search(Trigram(), start(task), (nothing, task.looks), **arguments)
        assert len(results) == 3


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_fast_search_of_a_model(name: str) -> None:
    model = build(name)
    step = decoding_step(model)
    if model.copies:
        assert not isinstance(step, BestStep)
        return
    assert isinstance(step, BestStep)
    context, state = laws.begin(model)
    for alpha, nbest in ((0.7, BEAMS), (0.0, 1), (1.5, 1)):
        goal = Goal(Scoring(alpha), nbest)
        arguments = {"limits": laws.limits(), "marks": laws.MARKS, "source_lengths": source().lengths, "goal": goal}
        expected = beam_search(step, state, context, expansion=BestK(BEAMS), **arguments)
        laws.same(fast_beam_search(step, state, context, beams=BEAMS, **arguments), expected, tolerance=1e-9)
    greedy = {"limits": laws.limits(), "marks": laws.MARKS}
    expected = greedy_search(step, state, context, **greedy)
    laws.same(fast_greedy_search(step, state, context, **greedy), expected, tolerance=1e-9)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_dropped_hypotheses_do_not_change_the_others(name: str) -> None:
    """Reading only some hypotheses of each sentence, and none of one, equals reading all and selecting these."""
    model = build(name)
    context, state = laws.begin(model)
    first, second = target(4, rows=SENTENCES * BEAMS), target(5, rows=SENTENCES * BEAMS)
    _, state = laws.read(model, first, laws.repeat_for_beams(state), context)
    expected, after = laws.read(model, second, state, context)
    for places in ([1, 3, 4, 8, 9, 10], [0, 2, 3], list(range(4, 12)), [7]):
        rows = torch.tensor(places)
        slots = Slots(rows, BEAMS)
        some, some_after = laws.read(model, second[rows], laws.select_rows(state, rows), with_slots(context, slots))
        laws.close(some.hidden, expected.hidden[rows], tolerance=1e-9)
        if expected.attention is not None:
            laws.close(some.attention, expected.attention[rows], tolerance=1e-9)
        laws.close(laws.flat(some_after), laws.flat(laws.select_rows(after, rows)), tolerance=1e-9)


# --- Search on tensors of fixed shape ---


class FixedTrigram(Trigram):
    """The trigram scorer, whose states always have the same shape."""

    def fixed(self, state: Tensor, *, size: int) -> Tensor:
        return state


@thorough
@given(
    task=tasks(longest=11, sentences=5),
    score=SCORINGS,
    beams=st.integers(1, 4),
    nbest=st.integers(1, 3),
    stop_after=st.sampled_from([None, None, 2]),
    fillers=st.integers(0, 2),
)
def test_beam_search_of_fixed_shape_finds_what_the_clear_one_finds(
    task: Task, score: Scoring, beams: int, nbest: int, stop_after: int | None, fillers: int
) -> None:
    goal = Goal(score._replace(beta=0.0), min(nbest, beams), stop_after)
    context, arguments = (task.tables, task.looks), search_arguments(task)
    expected = beam_search(trigram, start(task), context, expansion=BestK(beams), goal=goal, **arguments)
    rows = torch.tensor([*range(len(task.sources)), *[0] * fillers])
    filled = select_rows((start(task), context, arguments["limits"], arguments["source_lengths"]), rows)
    state, context, limits, lengths = filled
    actual = fixed_beam_search(
        FixedTrigram(),
        state,
        context,
        beams=beams,
        goal=goal,
        limits=limits,
        marks=MARKS,
        source_lengths=lengths,
        fixed=FixedSteps(Eager(), len(task.sources), room_for(int(lengths.max()), longest=int(limits.maximum.max()))),
    )
    assert actual == expected


OWN = torch.tensor([[3, 9, -1], [0, 3, 8], [4, -1, -1]])
LISTS = WordLists(torch.tensor([2, 5, 6, 10]), torch.tensor([4, 7]), OWN)


def masked_step(model: Model) -> Any:
    """The clear step with lists: the log-probabilities of all words, masked; the context has the sentences' words."""

    def step(tokens: Tensor, state: Any, context: Any) -> tuple[StepOutput, Any]:
        inner, own = context
        read, state = model.read(tokens[:, None], state, inner)
        lists = LISTS._replace(own=own)
        return StepOutput(masked_log_probs(model.output, read.hidden[:, -1], lists)), state

    return step


def same_or_tied(actual: Any, expected: Any) -> None:
    """The same scores and hypotheses; tokens may be in another order where that gives the same score."""
    for found, wanted in zip(actual, expected, strict=True):
        scores = [torch.tensor([item.score for item in side], dtype=torch.float64) for side in (found, wanted)]
        laws.close(*scores, tolerance=1e-9)
        assert [sorted(item.tokens) for item in found] == [sorted(item.tokens) for item in wanted]


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_search_of_fixed_shape_with_a_model(name: str) -> None:
    model = build(name)
    step = decoding_step(model)
    context, state = laws.begin(model)
    if not isinstance(step, FixedStep) or step.fixed(state, size=1) is None:
        assert model.copies or any(not getattr(part, "has_fixed_cache", True) for part in model.modules())
        return
    for beams, alpha, nbest in ((BEAMS, 0.7, BEAMS), (1, 0.0, 1), (BEAMS, 1.5, 1)):
        goal = Goal(Scoring(alpha), nbest)
        arguments = {"limits": laws.limits(), "marks": laws.MARKS, "source_lengths": source().lengths, "goal": goal}
        expected = beam_search(step, state, context, expansion=BestK(beams), **arguments)
        laws.same(fixed_beam_search(step, state, context, beams=beams, **arguments), expected, tolerance=1e-9)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_search_with_lists(name: str) -> None:
    """Fast search over each sentence's list, and clear search over it, equal clear search over all words, masked."""
    model = build(name)
    if model.copies or not isinstance(model.output, FullOutput):
        return
    torch.nn.init.normal_(model.output.bias, generator=torch.Generator().manual_seed(1))  # no ties
    context, state = laws.begin(model)
    step, listed = listed_step(model, context, LISTS)
    oracle = masked_step(model), state, (context, OWN)
    assert isinstance(step, BestStep)
    for alpha, nbest in ((0.7, BEAMS), (0.0, 1)):
        goal = Goal(Scoring(alpha), nbest)
        arguments = {"limits": laws.limits(), "marks": laws.MARKS, "source_lengths": source().lengths, "goal": goal}
        expected = beam_search(*oracle, expansion=BestK(BEAMS), **arguments)
        same_or_tied(beam_search(step, state, listed, expansion=BestK(BEAMS), **arguments), expected)
        same_or_tied(fast_beam_search(step, state, listed, beams=BEAMS, **arguments), expected)
        for hypotheses, own in zip(expected, OWN.tolist(), strict=True):
            assert all({*hypothesis.tokens} <= {5, 6, 10, *own} for hypothesis in hypotheses)
    greedy = {"limits": laws.limits(), "marks": laws.MARKS}
    expected = greedy_search(*oracle, **greedy)
    same_or_tied(fast_greedy_search(step, state, listed, **greedy), expected)
