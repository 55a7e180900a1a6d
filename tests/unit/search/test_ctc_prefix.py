"""Prefix beam search equals the enumeration of all paths on small cases, with and without a language model."""

import math
from itertools import product
from typing import Any

import numpy as np
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


def prior_log_prob(text: tuple[int, ...], *, ends: bool = True) -> float:
    state, token, total = (torch.tensor([START]),), START, 0.0
    for following in (*text, END) if ends else text:
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


def searched_with_tuples(
    values: Tensor, *, beam: int, nbest: int, weight: float, reward: float, count: int
) -> list[tuple[tuple[int, ...], float]]:
    """The same search with whole prefixes as keys, whose language model reads every prefix from its beginning."""

    def add(first: float, second: float) -> float:
        return float(np.logaddexp(first, second))

    def score(prefix: tuple[int, ...], *, ends: bool = False) -> float:
        log_prob = prior_log_prob(prefix, ends=ends) if weight else 0.0
        return add(*live[prefix]) + weight * log_prob + reward * len(prefix)

    live = {(): (0.0, -math.inf)}
    for row in values.tolist():
        likely = sorted(range(len(row)), key=lambda token: -row[token])[:count]
        after: dict[tuple[int, ...], tuple[float, float]] = {}
        for prefix, (b, n) in live.items():
            further = {prefix: (add(b, n) + row[BLANK], n + row[prefix[-1]] if prefix else -math.inf)}
            for token in likely:
                if token != BLANK:
                    before = b if prefix[-1:] == (token,) else add(b, n)
                    further[*prefix, token] = (-math.inf, before + row[token])
            for key, paths in further.items():
                old = after.get(key, (-math.inf, -math.inf))
                after[key] = add(old[0], paths[0]), add(old[1], paths[1])
        live = {prefix: paths for prefix, paths in after.items() if add(*paths) > -math.inf}
        live = {prefix: live[prefix] for prefix in sorted(live, key=lambda prefix: (-score(prefix), prefix))[:beam]}
    found = {prefix: score(prefix, ends=True) for prefix in live}
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))[:nbest]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beam", [1, 3, 8])
@pytest.mark.parametrize(("weight", "reward"), [(0.0, 0.0), (0.7, 0.3)])
def test_a_narrow_beam_equals_search_over_whole_prefixes(seed, beam, weight, reward) -> None:
    """The trie loses no prefix, also if it returns to the beam after it was dropped, and mixes up none."""
    values = torch.cat([log_probs(10 * seed + part, scale=2.0) for part in range(6)])
    found = prefix_beam_search(
        values, beam=beam, blank=BLANK, nbest=beam, prior=prior(weight) if weight else None, reward=reward, candidates=3
    )
    expected = searched_with_tuples(values, beam=beam, nbest=beam, weight=weight, reward=reward, count=3)
    assert [(item.tokens, pytest.approx(item.score)) for item in found] == expected


def test_ties_are_in_the_order_of_tokens() -> None:
    values = torch.full((2, SYMBOLS), -torch.inf).double()
    values[0, [3, 4]] = values[1, [3, 4]] = math.log(0.5)  # 3 3 is (3,), with the same probability as the others
    found = prefix_beam_search(values, beam=4, blank=BLANK, nbest=4)
    assert [item.tokens for item in found] == [(3,), (3, 4), (4,), (4, 3)]
    assert [item.tokens for item in prefix_beam_search(values, beam=2, blank=BLANK, nbest=2)] == [(3,), (3, 4)]


def test_a_long_text_is_found() -> None:
    text = torch.arange(6000) % 2 + 3
    values = torch.full((6000, SYMBOLS), -9.0).double()
    values[torch.arange(6000), text] = -0.01
    assert prefix_beam_search(values, beam=3, blank=BLANK)[0].tokens == tuple(text.tolist())


def test_repetitions_collapse_and_blanks_go() -> None:
    assert collapse([], blank=0) == ()
    assert collapse([0, 0], blank=0) == ()
    assert collapse([3, 3, 0, 3, 4, 4], blank=0) == (3, 3, 4)
