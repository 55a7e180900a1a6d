"""Attention's softmax, its choices and its window, and how beams fold into their sentence."""

import math

import pytest
import torch
from tests.laws.models import loud
from torch import Tensor

from calque.layers import attention as module
from calque.layers.attention import Attention, AttentionConfig, fold, masked_softmax, unfold

SENTENCES, BEAMS, QUERIES, SOURCE, WIDTH, MEMORY = 3, 4, 5, 7, 6, 8
MASK = torch.arange(SOURCE) < torch.tensor([SOURCE, 1, 4])[:, None]


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def build(**options) -> Attention:
    sizes = {"alignment": 5} if options.get("score") == "additive" else {}
    window = {} if options.get("reach", "global") == "global" else {"window": 2}
    config = AttentionConfig(**sizes, **window, **options)
    return loud(Attention(config, query_width=WIDTH, memory_width=MEMORY))


def test_softmax_of_what_may_be_seen() -> None:
    scores = random(SENTENCES, QUERIES, SOURCE)
    found = masked_softmax(scores, MASK[:, None])
    for b, size in enumerate(MASK.sum(dim=1).tolist()):
        assert not found[b, :, size:].any()
        for q in range(QUERIES):
            powers = [math.exp(score) for score in scores[b, q, :size].tolist()]
            weights = torch.tensor([power / sum(powers) for power in powers], dtype=torch.float64)
            torch.testing.assert_close(found[b, q, :size], weights, rtol=0, atol=1e-12)


def test_nothing_flows_back_to_what_is_masked() -> None:
    attention, queries = build(), random(1, 3, WIDTH)
    values = random(1, 4, MEMORY).requires_grad_()
    context = attention.prepare(values, torch.tensor([[True, True, False, True]]))
    found, _ = attention(queries, attention.start(context), context)
    found.context.square().sum().backward()
    assert not values.grad[:, 2].any()
    assert values.grad[:, [0, 1, 3]].all()


@pytest.mark.parametrize("reach", ["local-m", "local-p"])
@torch.no_grad()
def test_a_window_holds_as_many_positions_as_asked(reach: str) -> None:
    attention = build(reach=reach)
    values = random(1, 31, MEMORY)
    context = attention.prepare(values, torch.ones(1, 31, dtype=torch.bool))
    found, _ = attention(random(1, 40, WIDTH), attention.start(context), context)
    seen = (found.weights > 0).sum(dim=-1)[0]
    assert seen.max() == (5 if reach == "local-m" else 4)  # a predicted position stands between two
    assert seen.min() >= 2  # at an edge
    if reach == "local-m":
        assert (found.weights[0, 10] > 0).nonzero().squeeze(1).tolist() == [8, 9, 10, 11, 12]
        assert (found.weights[0, 39] > 0).nonzero().squeeze(1).tolist() == [28, 29, 30], "past its end: the end"


@torch.no_grad()
def test_hard_attention_draws_in_training_as_likely_as_its_weights() -> None:
    attention, values = build(choice="hard", soft_share=0.0), random(1, 4, MEMORY)
    context = attention.prepare(values, torch.tensor([[True, True, True, False]]))
    query = random(1, 1, WIDTH).expand(1, 6000, WIDTH)
    soft = masked_softmax(attention.score(query[:, :1], context.keys), context.mask[:, None])[0, 0]
    torch.manual_seed(5)
    found, _ = attention.train()(query, attention.start(context), context)
    drawn = found.weights[0].argmax(dim=-1)
    assert torch.equal(found.weights.sum(dim=-1), torch.ones_like(found.weights[..., 0]))
    torch.testing.assert_close(found.context[0], values[0, drawn])
    torch.testing.assert_close(found.chosen[0], soft[drawn].log())
    shares = torch.bincount(drawn, minlength=4) / 6000
    assert (shares - soft).abs().max() < 4 * 0.5 / math.sqrt(6000)
    expected = 0.01 * (soft[:3] * soft[:3].log()).sum()
    torch.testing.assert_close(found.losses["entropy"][0], expected.expand(6000))


@torch.no_grad()
def test_some_sentences_take_the_mean_in_training() -> None:
    """Which ones is drawn once a sentence and stays; their draws count for nothing."""
    attention, values = build(choice="hard", soft_share=0.25).train(), random(2000, 4, MEMORY)
    context = attention.prepare(values, torch.ones(2000, 4, dtype=torch.bool))
    queries = random(2000, 3, WIDTH)
    start = attention.start(context)
    found, after = attention(queries, start, context)
    soft = masked_softmax(attention.score(queries, context.keys), context.mask[:, None])
    assert start.is_soft.double().mean().item() == pytest.approx(0.25, abs=0.05)
    assert torch.equal(after.is_soft, start.is_soft)
    torch.testing.assert_close(found.weights[start.is_soft], soft[start.is_soft])
    assert not found.chosen[start.is_soft].any()
    assert (found.weights[~start.is_soft].amax(dim=-1) == 1).all()
    assert found.chosen[~start.is_soft].all()
    assert attention.eval().start(context).is_soft is None


@torch.no_grad()
def test_hard_attention_takes_the_most_likely_in_decoding() -> None:
    attention, values = build(choice="hard"), random(2, 4, MEMORY)
    context = attention.prepare(values, torch.ones(2, 4, dtype=torch.bool))
    queries = random(2, 3, WIDTH)
    found, _ = attention(queries, attention.start(context), context)
    likely = attention.score(queries, context.keys).argmax(dim=-1)
    assert torch.equal(found.weights.argmax(dim=-1), likely)
    assert found.chosen is None
    assert not found.losses


@torch.no_grad()
def test_coverage_is_what_was_looked_at_and_costs_when_looked_at_again() -> None:
    attention, values = build(coverage=True, coverage_loss=0.5, score="additive"), random(SENTENCES, SOURCE, MEMORY)
    context = attention.prepare(values, MASK)
    found, state = attention(random(SENTENCES, QUERIES, WIDTH), attention.start(context), context)
    before = torch.cat([torch.zeros_like(found.weights[:, :1]), found.weights.cumsum(dim=1)[:, :-1]], dim=1)
    torch.testing.assert_close(found.losses["coverage"], 0.5 * torch.minimum(found.weights, before).sum(dim=-1))
    torch.testing.assert_close(state.coverage, found.weights.sum(dim=1))


def test_a_position_is_drawn_for_every_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing flows back through the draw itself, only through what it says of its likelihood."""
    attention = build(choice="hard", soft_share=0.0).train()
    values = random(1, 4, MEMORY)
    context = attention.prepare(values, torch.ones(1, 4, dtype=torch.bool))
    monkeypatch.setattr(module, "draw", lambda shares: torch.full(shares.shape[:-1], 2))
    found, _ = attention(random(1, 2, WIDTH), attention.start(context), context)
    torch.testing.assert_close(found.context, values[:, [2, 2]])
    assert not found.weights.requires_grad
    assert found.chosen.requires_grad


def test_fold_keeps_a_sentences_hypotheses_together() -> None:
    rows = random(SENTENCES * BEAMS, QUERIES, WIDTH)
    folded = fold(rows, sentences=SENTENCES)
    for b, k, t in torch.cartesian_prod(*map(torch.arange, (SENTENCES, BEAMS, QUERIES))).tolist():
        assert torch.equal(folded[b, k * QUERIES + t], rows[b * BEAMS + k, t])


def test_unfold_undoes_fold() -> None:
    rows = random(SENTENCES * BEAMS, QUERIES, WIDTH)
    assert torch.equal(unfold(fold(rows, sentences=SENTENCES), rows=SENTENCES * BEAMS), rows)
