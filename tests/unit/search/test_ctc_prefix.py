"""Prefix beam search equals the enumeration of all paths on small cases, with and without a language model."""

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from calque.search.ctc_prefix import Prior, best_path, collapse, prefix_beam_search
from calque.search.step import StepOutput

BLANK, START, END = 0, 1, 2
SYMBOLS, POSITIONS = 5, 5  # blank, marks, and the tokens 3 and 4


def log_probs(seed: int, *, scale: float = 1.5) -> Tensor:
    values = scale * torch.randn(POSITIONS, SYMBOLS, generator=torch.Generator().manual_seed(seed)).double()
    values[:, [START, END]] = -torch.inf
    return values.log_softmax(dim=-1)


def texts_by_enumeration(values: Tensor) -> dict[tuple[int, ...], float]:
    """log P of every text, over all paths."""
    found: dict[tuple[int, ...], float] = {}
    for path in product((BLANK, 3, 4), repeat=POSITIONS):
        text = collapse(list(path), blank=BLANK)
        found[text] = found.get(text, 0.0) + float(values[range(POSITIONS), path].sum().exp())
    return {text: math.log(total) for text, total in found.items()}


def bigram(tokens: Tensor, state: tuple[Tensor], _: Any) -> tuple[StepOutput, tuple[Tensor]]:
    """A language model of its last two tokens, so that a state mixed up between prefixes is noticed."""
    table = torch.randn(SYMBOLS, SYMBOLS, SYMBOLS, generator=torch.Generator().manual_seed(9)).double().log_softmax(-1)
    return StepOutput(table[state[0], tokens]), (tokens,)


def prior(weight: float) -> Prior:
    return Prior(bigram, (torch.tensor([START]),), START, END, weight)


def prior_log_prob(text: tuple[int, ...]) -> float:
    state, token, total = (torch.tensor([START]),), START, 0.0
    for following in (*text, END):
        output, state = bigram(torch.tensor([token]), state, ())
        total += float(output.log_probs[0, following])
        token = following
    return total


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("weight", "reward"), [(0.0, 0.0), (0.7, 0.0), (0.4, 0.9)])
def test_a_wide_beam_equals_enumeration(seed, weight, reward) -> None:
    values = log_probs(seed)
    expected = {
        text: total + weight * prior_log_prob(text) * (weight > 0) + reward * len(text)
        for text, total in texts_by_enumeration(values).items()
    }
    ranked = sorted(expected, key=lambda text: (-expected[text], text))
    found = prefix_beam_search(
        values, beam=1000, blank=BLANK, nbest=1000, prior=prior(weight) if weight else None, reward=reward
    )
    assert [hypothesis.tokens for hypothesis in found] == ranked
    for hypothesis in found:
        assert hypothesis.score == pytest.approx(expected[hypothesis.tokens], abs=1e-9)


def test_a_text_spread_over_many_paths_beats_the_best_path() -> None:
    """Graves' example: blank has 0.6 twice, yet the token has 1 − 0.36 over its three paths."""
    row = [0.6, 0, 0, 0.4, 0]
    values = torch.tensor([row, row]).double().log()
    assert best_path(values, blank=BLANK).tokens == ()
    assert prefix_beam_search(values, beam=4, blank=BLANK)[0].tokens == (3,)


def test_a_narrow_beam_finds_what_a_wide_one_finds_where_paths_are_clear() -> None:
    values = log_probs(3, scale=6.0)
    wide, narrow = (prefix_beam_search(values, beam=beam, blank=BLANK)[0] for beam in (1000, 3))
    assert narrow.tokens == wide.tokens
    assert narrow.log_prob <= wide.log_prob + 1e-9


def test_a_weight_of_0_leaves_the_ranking_alone() -> None:
    values = log_probs(1)
    without = prefix_beam_search(values, beam=50, blank=BLANK, nbest=5)
    with_prior = prefix_beam_search(values, beam=50, blank=BLANK, nbest=5, prior=prior(0.0))
    assert [(item.tokens, pytest.approx(item.score)) for item in with_prior] == [
        (item.tokens, item.score) for item in without
    ]


def test_repetitions_collapse_and_blanks_go() -> None:
    assert collapse([], blank=0) == ()
    assert collapse([0, 0], blank=0) == ()
    assert collapse([3, 3, 0, 3, 4, 4], blank=0) == (3, 3, 4)
