"""Several steps as one, against the formulas in plain numbers and against a search on the combined tables."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.laws.test_oracle import MARKS, Task, start, tasks, thorough, trigram
from torch import Tensor

from calque.search.beam import BestK, Goal, beam_search
from calque.search.ensemble import MeanName, ensemble, fused
from calque.search.scoring import Scoring
from calque.search.step import Hypothesis, Step, StepOutput

MEANS: list[MeanName] = ["probabilities", "log-probabilities"]
WEIGHTS = st.sampled_from([0.0, 0.25, 1.0]) | st.floats(0, 3)

Rows = list[list[float]]  # [N,V] logits, one member's
numbers = st.floats(-8, 8)
logits = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 5)).flatmap(
    lambda sizes: st.lists(
        st.lists(
            st.lists(numbers, min_size=sizes[2], max_size=sizes[2]),
            min_size=sizes[1],
            max_size=sizes[1],
        ),
        min_size=sizes[0],
        max_size=sizes[0],
    )
)  # [members,N,V]


def fixed(rows: Rows, attention: Rows | None = None) -> Step:
    """A step with a constant output."""
    log_probs = torch.tensor(rows, dtype=torch.float64).log_softmax(-1)
    attention_weights = None if attention is None else torch.tensor(attention, dtype=torch.float64)

    def step(tokens: Tensor, state: Tensor, context: Tensor) -> tuple[StepOutput, Tensor]:
        return StepOutput(log_probs, attention_weights), state + tokens * context

    return step


def once(step: Step, *, members: int, rows: int) -> StepOutput:
    zeros = torch.zeros(rows, dtype=torch.long)
    return step(zeros, (zeros,) * members, (zeros,) * members)[0]


def plain_softmax(row: list[float]) -> list[float]:
    return [math.exp(logit) / sum(math.exp(other_logit) for other_logit in row) for logit in row]


def mirrored(tokens: Tensor, state: Tensor, context: tuple[Tensor, Tensor]) -> tuple[StepOutput, Tensor]:
    """The trigram step with its state reversed, so that a state passed to the wrong step is noticed."""
    output, after = trigram(tokens, state.flip(1), context)
    return output, after.flip(1)


def search(
    step: Step, task: Task, *, states: object, contexts: object, score: Scoring, beams: int = 3
) -> list[list[Hypothesis]]:
    return beam_search(
        step,
        states,
        contexts,
        expansion=BestK(beams),
        goal=Goal(score, 2),
        limits=task.limits,
        marks=MARKS,
        source_lengths=torch.tensor(task.sources),
    )


@st.composite
def pairs(draw: Callable, *, impossible: bool = True) -> tuple[Task, Tensor, Tensor]:
    """A task, and the tables and attention of a second model for it."""
    task = draw(tasks(longest=6, sentences=4, impossible=impossible))
    order = torch.arange(task.tables[0].numel()).roll(draw(st.integers(1, 124))).view(task.tables[0].shape)
    tables = task.tables.flatten(1)[:, order.flatten()].view(task.tables.shape)
    return task, tables, task.looks.transpose(1, 2)


@thorough
@given(members=logits)
def test_the_mean_of_probabilities(members: list[Rows]) -> None:
    output = once(ensemble([fixed(rows) for rows in members]), members=len(members), rows=len(members[0]))
    for log_probs, *rows in zip(output.log_probs.tolist(), *members, strict=True):
        mean = [sum(member_probs) / len(members) for member_probs in zip(*map(plain_softmax, rows), strict=True)]
        assert [math.exp(log_prob) for log_prob in log_probs] == pytest.approx(mean, rel=1e-9)
        assert sum(map(math.exp, log_probs)) == pytest.approx(1, rel=1e-9)


@thorough
@given(members=logits)
def test_the_mean_of_log_probabilities_is_the_normalised_geometric_mean(members: list[Rows]) -> None:
    step = ensemble([fixed(rows) for rows in members], mean="log-probabilities")
    output = once(step, members=len(members), rows=len(members[0]))
    for log_probs, *rows in zip(output.log_probs.tolist(), *members, strict=True):
        roots = [math.prod(probs) ** (1 / len(members)) for probs in zip(*map(plain_softmax, rows), strict=True)]
        expected = [root / sum(roots) for root in roots]
        assert [math.exp(log_prob) for log_prob in log_probs] == pytest.approx(expected, rel=1e-9)
        assert sum(map(math.exp, log_probs)) == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("mean", MEANS)
@thorough
@given(members=logits, count=st.integers(1, 4))
def test_a_model_ensembled_with_itself_is_itself(mean: MeanName, members: list[Rows], count: int) -> None:
    step = fixed(members[0], attention=members[0])
    output = once(ensemble([step] * count, mean=mean), members=count, rows=len(members[0]))
    zeros = torch.zeros(len(members[0]), dtype=torch.long)
    expected, _ = step(zeros, zeros, zeros)
    torch.testing.assert_close(output.log_probs, expected.log_probs, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(output.attention, expected.attention, rtol=1e-12, atol=1e-12)


def test_a_token_that_one_member_excludes_is_halved_or_excluded() -> None:
    steps = [fixed([[0.0, -math.inf]]), fixed([[0.0, 0.0]])]
    mean = once(ensemble(steps), members=2, rows=1).log_probs
    torch.testing.assert_close(mean.exp(), torch.tensor([[0.75, 0.25]], dtype=torch.float64))
    product = once(ensemble(steps, mean="log-probabilities"), members=2, rows=1).log_probs
    torch.testing.assert_close(product.exp(), torch.tensor([[1.0, 0.0]], dtype=torch.float64))


@pytest.mark.parametrize("mean", MEANS)
def test_attention_is_the_mean_of_those_that_have_one(mean: MeanName) -> None:
    first, second, without = (
        fixed([[0.0, 1.0]], attention=[[1.0, 0.0, 0.0]]),
        fixed([[2.0, 1.0]], attention=[[0.0, 0.5, 0.5]]),
        fixed([[2.0, 1.0]]),
    )
    output = once(ensemble([first, without, second], mean=mean), members=3, rows=1)
    torch.testing.assert_close(output.attention, torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.float64))
    assert once(ensemble([without, without], mean=mean), members=2, rows=1).attention is None


def test_an_ensemble_means_probabilities_and_gives_each_step_its_own_state() -> None:
    def member(shift: int) -> Step:
        def step(tokens, state, context):
            return StepOutput((context + shift * state[:, None]).log_softmax(-1)), state + tokens

        return step

    tokens, states = torch.tensor([3, 4]), (torch.tensor([0.5, 1.0]), torch.tensor([-2.0, 0.0]))
    contexts = (torch.randn(2, 5), torch.randn(2, 5))
    joint, after = ensemble([member(1), member(2)])(tokens, states, contexts)
    separate = [member(n + 1)(tokens, states[n], contexts[n]) for n in range(2)]
    mean = sum(output.log_probs.exp() for output, _ in separate) / 2
    torch.testing.assert_close(joint.log_probs.exp(), mean)
    assert all(torch.equal(state_after, state) for state_after, (_, state) in zip(after, separate, strict=True))


@thorough
@given(members=logits, data=st.data())
def test_fused_steps_are_a_weighted_sum(members: list[Rows], data: st.DataObject) -> None:
    weights = data.draw(st.lists(WEIGHTS, min_size=len(members), max_size=len(members)).filter(any))
    steps = [fixed(rows, attention=rows) for rows in members]
    output = once(fused(steps, weights=weights, unknown=3), members=len(members), rows=len(members[0]))
    for log_probs, *rows in zip(output.log_probs.tolist(), *members, strict=True):
        logs = [[math.log(prob) for prob in plain_softmax(row)] for row in rows]
        expected = [
            sum(weight * log for weight, log in zip(weights, token_logs, strict=True))
            for token_logs in zip(*logs, strict=True)
        ]
        assert log_probs == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert output.attention is not None
    assert output.attention.tolist() == members[0]


@thorough
@given(pair=pairs(), score=st.sampled_from([Scoring(), Scoring(0.6, 0.2)]))
def test_a_second_model_with_zero_weight_changes_nothing(pair: tuple[Task, Tensor, Tensor], score: Scoring) -> None:
    task, tables, looks = pair
    first, second = (task.tables, task.looks), (tables, looks)
    alone = search(trigram, task, states=start(task), contexts=first, score=score)
    states, contexts = (start(task), start(task)), (first, second)
    assert alone == search(
        fused([trigram, mirrored], weights=(1, 0), unknown=3), task, states=states, contexts=contexts, score=score
    )


@thorough
@given(pair=pairs(), weights=st.tuples(WEIGHTS, WEIGHTS).filter(any), beams=st.integers(1, 4))
def test_a_search_of_fused_steps_is_a_search_of_the_summed_tables(
    pair: tuple[Task, Tensor, Tensor], weights: tuple[float, float], beams: int
) -> None:
    task, tables, looks = pair
    parts = [weight * table for weight, table in zip(weights, (task.tables, tables), strict=True) if weight]
    score, summed = Scoring(0.6, 0.2), (sum(parts[1:], parts[0]), task.looks)
    expected = search(trigram, task, states=start(task), contexts=summed, score=score, beams=beams)
    states, contexts = (start(task), start(task)), ((task.tables, task.looks), (tables, looks))
    step = fused([trigram, mirrored], weights=weights, unknown=3)
    assert search(step, task, states=states, contexts=contexts, score=score, beams=beams) == expected


@pytest.mark.parametrize("mean", MEANS)
@thorough
@given(pair=pairs(impossible=False), beams=st.integers(1, 4))
def test_a_search_of_an_ensemble_is_a_search_of_the_mean_tables(
    mean: MeanName, pair: tuple[Task, Tensor, Tensor], beams: int
) -> None:
    task, tables, looks = pair
    model_tables = torch.stack([task.tables, tables])
    noise = torch.rand(model_tables.shape, generator=torch.Generator().manual_seed(1), dtype=model_tables.dtype)
    model_tables = (model_tables + noise).log_softmax(dim=-1)  # no two hypotheses are equal up to rounding
    arithmetic, geometric = model_tables.exp().mean(dim=0).log(), model_tables.mean(dim=0).log_softmax(dim=-1)
    joined = arithmetic if mean == "probabilities" else geometric
    score, attention = Scoring(0.6, 0.2), torch.stack([task.looks, looks]).mean(dim=0)
    expected = search(trigram, task, states=start(task), contexts=(joined, attention), score=score, beams=beams)
    states, contexts = (start(task), start(task)), ((model_tables[0], task.looks), (model_tables[1], looks))
    step = ensemble([trigram, mirrored], mean=mean)
    results = search(step, task, states=states, contexts=contexts, score=score, beams=beams)
    for actual, reference in zip(results, expected, strict=True):
        assert [hypothesis.cut for hypothesis in actual] == [hypothesis.cut for hypothesis in reference]
        assert [hypothesis.score for hypothesis in actual] == pytest.approx(
            [hypothesis.score for hypothesis in reference], rel=1e-9, abs=1e-9
        )
