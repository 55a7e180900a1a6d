"""Greedy search takes the best token at every step, until each sentence ends."""

import pytest
from hypothesis import given
from tests.laws.test_oracle import MARKS, Sentence, Task, allowed, start, tasks, thorough, trigram

from calque.search.greedy import greedy_search


def plain_greedy(sentence: Sentence) -> tuple[tuple[int, ...], bool]:
    """The tokens of one sentence, on plain lists, and whether they were cut."""
    tokens: tuple[int, ...] = ()
    for length in range(1, sentence.maximum + 1):
        candidates = allowed(sentence, length)
        best = max(candidates, key=lambda token, before=tokens: sentence.totals((*before, token))[-1])
        if best == MARKS.end:
            return tokens, False
        tokens = (*tokens, best)
    return tokens[:-1], True  # maximum length reached without an end


@thorough
@given(task=tasks(longest=8, sentences=5, impossible=False))
def test_greedy_search_is_the_best_token_of_every_step(task: Task) -> None:
    results = greedy_search(trigram, start(task), (task.tables, task.looks), limits=task.limits, marks=MARKS)
    for (hypothesis,), sentence in zip(results, task.sentences, strict=True):
        assert (hypothesis.tokens, hypothesis.cut) == plain_greedy(sentence)
        tokens = hypothesis.tokens if hypothesis.cut else (*hypothesis.tokens, MARKS.end)
        assert hypothesis.score == hypothesis.log_prob == pytest.approx(sentence.totals(tokens)[-1], rel=1e-12)
