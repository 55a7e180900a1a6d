"""Attention scores by their formulas, the weighted mean, and how beams fold into their sentence."""

import math

import pytest
import torch
from tests.laws.models import loud
from torch import Tensor
from torch.autograd import gradcheck

from calque.layers.attention import AdditiveScore, attend, build_score, fold, unfold

SENTENCES, BEAMS, QUERIES, SOURCE, WIDTH, MEMORY = 3, 4, 5, 7, 6, 8


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def dot(one: Tensor, other: Tensor) -> float:
    return sum(x * y for x, y in zip(one.tolist(), other.tolist(), strict=True))


def formula(name: str, score, query: Tensor, value: Tensor) -> float:
    """Luong 2015, eq. 8, in numbers."""
    match name:
        case "dot":
            return dot(query, value)
        case "general":
            return dot(query, value.new_tensor([dot(row, value) for row in score.key.weight]))
    rows = zip(score.query.weight, score.key.weight, strict=True)
    units = [math.tanh(dot(one, query) + dot(other, value)) for one, other in rows]
    return sum(weight * unit for weight, unit in zip(score.value.weight[0].tolist(), units, strict=True))


@pytest.mark.parametrize("name", ["dot", "general", "concat"])
@torch.no_grad()
def test_score_is_its_formula(name: str) -> None:
    width = WIDTH if name == "dot" else MEMORY
    score = loud(build_score(name, query_width=WIDTH, memory_width=width))
    queries, memory = random(SENTENCES, QUERIES, WIDTH), random(SENTENCES, SOURCE, width)
    scores = score(queries, score.keys(memory))
    assert scores.shape == (SENTENCES, QUERIES, SOURCE)
    for b, q, s in torch.cartesian_prod(*map(torch.arange, scores.shape)).tolist():
        assert scores[b, q, s].item() == pytest.approx(formula(name, score, queries[b, q], memory[b, s]), abs=1e-12)


def test_concat_is_as_wide_as_the_queries() -> None:
    score = build_score("concat", query_width=WIDTH, memory_width=MEMORY)
    assert isinstance(score, AdditiveScore)
    assert score.query.weight.shape == (WIDTH, WIDTH)
    assert score.key.weight.shape == (WIDTH, MEMORY)


def test_attend_is_the_mean_under_the_softmax_of_what_may_be_seen() -> None:
    scores, values = random(SENTENCES, QUERIES, SOURCE), random(SENTENCES, SOURCE, MEMORY)
    sizes = [SOURCE, 1, 4]
    found = attend(scores, values=values, mask=torch.arange(SOURCE) < torch.tensor(sizes)[:, None])
    for b, size in enumerate(sizes):
        assert not found.weights[b, :, size:].any()
        for q in range(QUERIES):
            powers = [math.exp(score) for score in scores[b, q, :size].tolist()]
            weights = torch.tensor([power / sum(powers) for power in powers], dtype=torch.float64)
            torch.testing.assert_close(found.weights[b, q, :size], weights, rtol=0, atol=1e-12)
            mean = sum(weight * value for weight, value in zip(weights, values[b, :size], strict=True))
            torch.testing.assert_close(found.context[b, q], mean, rtol=0, atol=1e-12)


def test_gradients_of_attend() -> None:
    scores, values = random(2, 3, 4).requires_grad_(), random(2, 4, 5).requires_grad_()
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    assert gradcheck(lambda scores, values: attend(scores, values=values, mask=mask), (scores, values))


def test_nothing_flows_back_to_what_is_masked() -> None:
    scores, values = random(1, 3, 4).requires_grad_(), random(1, 4, 5).requires_grad_()
    found = attend(scores, values=values, mask=torch.tensor([[True, True, False, True]]))
    found.context.square().sum().backward()
    assert not scores.grad[..., 2].any()
    assert not values.grad[:, 2].any()
    assert values.grad[:, [0, 1, 3]].all()


def test_fold_keeps_a_sentences_hypotheses_together() -> None:
    rows = random(SENTENCES * BEAMS, QUERIES, WIDTH)
    folded = fold(rows, sentences=SENTENCES)
    for b, k, t in torch.cartesian_prod(*map(torch.arange, (SENTENCES, BEAMS, QUERIES))).tolist():
        assert torch.equal(folded[b, k * QUERIES + t], rows[b * BEAMS + k, t])


def test_unfold_undoes_fold() -> None:
    rows = random(SENTENCES * BEAMS, QUERIES, WIDTH)
    assert torch.equal(unfold(fold(rows, sentences=SENTENCES), rows=SENTENCES * BEAMS), rows)
