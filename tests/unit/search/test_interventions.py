"""Interventions: a forced token and a replaced state have the results of enumeration.

A wide beam with nothing forced is an enumeration.
"""

import itertools

import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.laws.test_oracle import MARKS, VOCABULARY, WORDS, Task, start, tasks, thorough, trigram
from torch import Tensor

from calque.search.beam import BestK, Goal, beam_search
from calque.search.interventions import ForceToken, Intervention, ReplaceState, intervened, start_intervened
from calque.search.scoring import Scoring
from calque.search.step import Hypothesis


def searched(task: Task, interventions: list[Intervention], *, beams: int = 200) -> list[list[Hypothesis]]:
    state = start_intervened(start(task), rows=len(task.tables), device=torch.device("cpu"))
    return beam_search(
        intervened(trigram, interventions),
        state,
        (task.tables, task.looks),
        expansion=BestK(beams),
        goal=Goal(Scoring(), nbest=beams),
        limits=task.limits,
        marks=MARKS,
        source_lengths=torch.tensor(task.sources),
    )


@thorough
@given(task=tasks(longest=4, impossible=False), position=st.integers(1, 3), token=st.sampled_from(WORDS))
def test_a_forced_token_stands_where_it_is_forced(task: Task, position: int, token: int) -> None:
    free = searched(task, [])
    forced = searched(task, [ForceToken(position, token)])
    for before, after in zip(free, forced, strict=True):
        expected = [
            row
            for row in before
            if not row.cut and (*row.tokens, MARKS.end, *[token] * position)[position - 1] == token
        ]
        assert {row.tokens for row in after if not row.cut} == {row.tokens for row in expected}
        assert {row.log_prob for row in after if not row.cut} == {row.log_prob for row in expected}


@thorough
@given(task=tasks(longest=5, impossible=False), position=st.integers(2, 4), other=st.sampled_from(WORDS))
def test_a_replaced_state_is_what_the_next_token_is_predicted_from(task: Task, position: int, other: int) -> None:
    """The trigram then sees another token where the one before last was."""

    def replace(state: Tensor) -> Tensor:
        return torch.stack([state[:, 0], torch.full_like(state[:, 1], other)], dim=1)

    results = searched(task, [ReplaceState(position, replace)])
    for hypotheses, table in zip(results, task.tables.tolist(), strict=True):
        for row in hypotheses:
            if row.cut:
                continue
            tokens = (*row.tokens, MARKS.end)
            history, total = [MARKS.start, MARKS.start], 0.0
            for length, token in enumerate(tokens, start=1):
                first = other if length == position else history[-2]
                total += table[first][history[-1]][token]
                history.append(token)
            assert abs(row.log_prob - total) < 1e-9


def test_nothing_happens_at_other_positions() -> None:
    generator = torch.Generator().manual_seed(3)
    tables = -torch.rand(2, *[VOCABULARY] * 3, dtype=torch.float64, generator=generator)
    task = Task(tables, [5, 4], [0, 0], torch.ones(2, VOCABULARY, VOCABULARY, 3), [3, 2])
    idle: list[Intervention] = [ForceToken(99, 3), ReplaceState(99, lambda state: state * 0)]
    for count in range(len(idle) + 1):
        for chosen in itertools.permutations(idle, count):
            assert searched(task, list(chosen), beams=3) == searched(task, [], beams=3)
