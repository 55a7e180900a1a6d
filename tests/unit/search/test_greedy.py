"""Greedy search takes the best token of every step, each sentence to its own end."""

import pytest
from hypothesis import given
from tests.laws.test_oracle import MARKS, Sentence, Task, allowed, patient, start, tasks, trigram

from calque.search.greedy import greedy_search


def plain_greedy(sentence: Sentence) -> tuple[tuple[int, ...], bool]:
    """The tokens and whether they were cut, one sentence in lists."""
    tokens: tuple[int, ...] = ()
    for length in range(1, sentence.maximum + 1):
        may = allowed(sentence, length)
        best = max(may, key=lambda token, before=tokens: sentence.totals((*before, token))[-1])
        if best == MARKS.end:
            return tokens, False
        tokens = (*tokens, best)
    return tokens[:-1], True  # it is as long as it may be, and does not end there


@patient
@given(task=tasks(longest=8, sentences=5, impossible=False))
def test_greedy_search_is_the_best_token_of_every_step(task: Task) -> None:
    found = greedy_search(trigram, start(task), (task.tables, task.looks), limits=task.limits, marks=MARKS)
    for (hypothesis,), sentence in zip(found, task.sentences, strict=True):
        assert (hypothesis.tokens, hypothesis.cut) == plain_greedy(sentence)
        tokens = hypothesis.tokens if hypothesis.cut else (*hypothesis.tokens, MARKS.end)
        assert hypothesis.score == hypothesis.log_prob == pytest.approx(sentence.totals(tokens)[-1], rel=1e-12)
