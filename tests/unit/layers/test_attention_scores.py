"""Attention scores against their formulas."""

import math

import pytest
import torch
from tests.laws.models import loud
from torch import Tensor

from calque.layers.attention_scores import AdditiveScore, Score, ScoreName, build_score

SENTENCES, QUERIES, SOURCE, WIDTH, MEMORY, ALIGNMENT, LONGEST = 3, 5, 7, 6, 8, 4, 5
SCORES: list[ScoreName] = ["dot", "scaled_dot", "general", "concat", "additive", "location"]


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def dot(first: Tensor, second: Tensor) -> float:
    return sum(x * y for x, y in zip(first.tolist(), second.tolist(), strict=True))


def memory_width(name: ScoreName) -> int:
    return WIDTH if name in ("dot", "scaled_dot") else MEMORY


def build(name: ScoreName, *, covered: bool = False) -> Score:
    return loud(
        build_score(
            name,
            query_width=WIDTH,
            memory_width=memory_width(name),
            width=ALIGNMENT,
            longest=LONGEST,
            covered=covered,
        )
    )


def formula(name: ScoreName, score, query: Tensor, value: Tensor, *, position: int, covered: float) -> float:
    """Luong 2015, §3.1 and eq. 8; Vaswani 2017, eq. 1; Bahdanau 2015, A.1.2; See 2017, eq. 11: in numbers."""
    coverage_weights = [0.0] * ALIGNMENT * WIDTH if score.coverage is None else score.coverage.tolist()
    match name:
        case "dot":
            return dot(query, value) + coverage_weights[0] * covered
        case "scaled_dot":
            return dot(query, value) / math.sqrt(WIDTH) + coverage_weights[0] * covered
        case "general":
            return (
                dot(query, value.new_tensor([dot(row, value) for row in score.key.weight]))
                + coverage_weights[0] * covered
            )
        case "location":
            return dot(score.weight[min(position, LONGEST - 1)], query) + coverage_weights[0] * covered
    rows = zip(score.query.weight, score.key.weight, coverage_weights, strict=False)
    units = [math.tanh(dot(query_row, query) + dot(key_row, value) + w * covered) for query_row, key_row, w in rows]
    return sum(weight * unit for weight, unit in zip(score.value.weight[0].tolist(), units, strict=True))


@pytest.mark.parametrize("covered", [False, True])
@pytest.mark.parametrize("name", SCORES)
@torch.no_grad()
def test_score_is_its_formula(name: ScoreName, covered: bool) -> None:
    score = build(name, covered=covered)
    queries, memory = random(SENTENCES, QUERIES, WIDTH), random(SENTENCES, SOURCE, memory_width(name))
    coverage = random(SENTENCES, QUERIES, SOURCE).abs()
    scores = score(queries, score.keys(memory), coverage if covered else None)
    assert scores.shape == (SENTENCES, QUERIES, SOURCE)
    for b, q, s in torch.cartesian_prod(*map(torch.arange, scores.shape)).tolist():
        expected = formula(name, score, queries[b, q], memory[b, s], position=s, covered=coverage[b, q, s].item())
        assert scores[b, q, s].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("name", "width"), [("concat", WIDTH), ("additive", ALIGNMENT)])
def test_width_of_the_hidden_layer(name: ScoreName, width: int) -> None:
    score = build(name)
    assert isinstance(score, AdditiveScore)
    assert score.query.weight.shape == (width, WIDTH)
    assert score.key.weight.shape == (width, MEMORY)


@pytest.mark.parametrize("name", ["dot", "scaled_dot"])
def test_products_need_equal_widths(name: ScoreName) -> None:
    with pytest.raises(ValueError, match="decoder has 6, the memory 8; use score = 'general'"):
        build_score(name, query_width=WIDTH, memory_width=MEMORY, width=1, longest=1, covered=False)
