"""Masked softmax, hard and local attention, coverage, and how beams fold into their sentence."""

import math

import pytest
import torch
from tests.laws.models import loud
from torch import Tensor

from calque.layers import attention as module
from calque.layers.attention import Attention, AttentionConfig, masked_softmax
from calque.tensors import fold, unfold

SENTENCES, BEAMS, QUERIES, SOURCE, WIDTH, MEMORY = 3, 4, 5, 7, 6, 8
MASK = torch.arange(SOURCE) < torch.tensor([SOURCE, 1, 4])[:, None]


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def build(**options) -> Attention:
    sizes = {"alignment": 5} if options.get("score") == "additive" else {}
    window = {} if options.get("reach", "global") == "global" else {"window": 2}
    config = AttentionConfig(**sizes, **window, **options)
    return loud(Attention(config, query_width=WIDTH, memory_width=MEMORY))


def test_softmax_of_unmasked_positions() -> None:
    scores = random(SENTENCES, QUERIES, SOURCE)
    weights = masked_softmax(scores, MASK[:, None])
    for b, size in enumerate(MASK.sum(dim=1).tolist()):
        assert not weights[b, :, size:].any()
        for q in range(QUERIES):
            powers = [math.exp(score) for score in scores[b, q, :size].tolist()]
            expected = torch.tensor([power / sum(powers) for power in powers], dtype=torch.float64)
            torch.testing.assert_close(weights[b, q, :size], expected, rtol=0, atol=1e-12)


def test_masked_positions_get_no_gradient() -> None:
    attention, queries = build(), random(1, 3, WIDTH)
    values = random(1, 4, MEMORY).requires_grad_()
    context = attention.prepare(values, torch.tensor([[True, True, False, True]]))
    attended, _ = attention(queries, attention.start(context), context)
    attended.context.square().sum().backward()
    assert not values.grad[:, 2].any()
    assert values.grad[:, [0, 1, 3]].all()


@pytest.mark.parametrize("reach", ["local-m", "local-p"])
@torch.no_grad()
def test_a_window_has_the_configured_number_of_positions(reach: str) -> None:
    attention = build(reach=reach)
    values = random(1, 31, MEMORY)
    context = attention.prepare(values, torch.ones(1, 31, dtype=torch.bool))
    attended, _ = attention(random(1, 40, WIDTH), attention.start(context), context)
    window_sizes = (attended.weights > 0).sum(dim=-1)[0]
    assert window_sizes.max() == (5 if reach == "local-m" else 4)  # a predicted position lies between two
    assert window_sizes.min() >= 2  # at an edge
    if reach == "local-m":
        assert (attended.weights[0, 10] > 0).nonzero().squeeze(1).tolist() == [8, 9, 10, 11, 12]
        assert (attended.weights[0, 39] > 0).nonzero().squeeze(1).tolist() == [28, 29, 30], (
            "beyond the end of the source the window stays at its end"
        )


@torch.no_grad()
def test_hard_attention_samples_in_training_with_its_weights() -> None:
    torch.manual_seed(1)
    attention, values = build(choice="hard", soft_share=0.0), random(1, 4, MEMORY)
    context = attention.prepare(values, torch.tensor([[True, True, True, False]]))
    query = 0.01 * random(1, 1, WIDTH).expand(1, 6000, WIDTH)
    soft = masked_softmax(attention.score(query[:, :1], context.keys), context.mask[:, None])[0, 0]
    assert (soft[:3] > 0.1).all(), "every position is sampled now and then"
    torch.manual_seed(5)
    attended, _ = attention.train()(query, attention.start(context), context)
    samples = attended.weights[0].argmax(dim=-1)
    assert torch.equal(attended.weights.sum(dim=-1), torch.ones_like(attended.weights[..., 0]))
    torch.testing.assert_close(attended.context[0], values[0, samples])
    torch.testing.assert_close(attended.chosen[0], soft[samples].log())
    shares = torch.bincount(samples, minlength=4) / 6000
    assert (shares - soft).abs().max() < 4 * 0.5 / math.sqrt(6000)
    expected = 0.01 * (soft[:3] * soft[:3].log()).sum()
    torch.testing.assert_close(attended.losses["entropy"][0], expected.expand(6000))


@torch.no_grad()
def test_some_sentences_use_soft_attention_in_training() -> None:
    """They are chosen once per sentence; their log-probability of sampling is 0."""
    attention, values = build(choice="hard", soft_share=0.25).train(), random(2000, 4, MEMORY)
    context = attention.prepare(values, torch.ones(2000, 4, dtype=torch.bool))
    queries = random(2000, 3, WIDTH)
    start = attention.start(context)
    attended, after = attention(queries, start, context)
    soft = masked_softmax(attention.score(queries, context.keys), context.mask[:, None])
    assert start.is_soft.double().mean().item() == pytest.approx(0.25, abs=0.05)
    assert torch.equal(after.is_soft, start.is_soft)
    torch.testing.assert_close(attended.weights[start.is_soft], soft[start.is_soft])
    assert not attended.chosen[start.is_soft].any()
    assert (attended.weights[~start.is_soft].amax(dim=-1) == 1).all()
    assert attended.chosen[~start.is_soft].all()
    assert attention.eval().start(context).is_soft is None


@torch.no_grad()
def test_hard_attention_takes_the_most_likely_position_in_decoding() -> None:
    attention, values = build(choice="hard"), random(2, 4, MEMORY)
    context = attention.prepare(values, torch.ones(2, 4, dtype=torch.bool))
    queries = random(2, 3, WIDTH)
    attended, _ = attention(queries, attention.start(context), context)
    likely = attention.score(queries, context.keys).argmax(dim=-1)
    assert torch.equal(attended.weights.argmax(dim=-1), likely)
    assert attended.chosen is None
    assert not attended.losses


@torch.no_grad()
def test_coverage_is_the_sum_of_weights_and_repeated_attention_is_penalised() -> None:
    attention, values = build(coverage=True, coverage_loss=0.5, score="additive"), random(SENTENCES, SOURCE, MEMORY)
    context = attention.prepare(values, MASK)
    attended, state = attention(random(SENTENCES, QUERIES, WIDTH), attention.start(context), context)
    before = torch.cat([torch.zeros_like(attended.weights[:, :1]), attended.weights.cumsum(dim=1)[:, :-1]], dim=1)
    torch.testing.assert_close(attended.losses["coverage"], 0.5 * torch.minimum(attended.weights, before).sum(dim=-1))
    torch.testing.assert_close(state.coverage, attended.weights.sum(dim=1))


def test_a_position_is_sampled_for_every_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample itself has no gradient, only its log-probability."""
    attention = build(choice="hard", soft_share=0.0).train()
    values = random(1, 4, MEMORY)
    context = attention.prepare(values, torch.ones(1, 4, dtype=torch.bool))
    monkeypatch.setattr(module, "draw", lambda shares: torch.full(shares.shape[:-1], 2))
    attended, _ = attention(random(1, 2, WIDTH), attention.start(context), context)
    torch.testing.assert_close(attended.context, values[:, [2, 2]])
    assert not attended.weights.requires_grad
    assert attended.chosen.requires_grad


def test_fold_keeps_a_sentences_hypotheses_together() -> None:
    rows = random(SENTENCES * BEAMS, QUERIES, WIDTH)
    folded = fold(rows, sentences=SENTENCES)
    for b, k, t in torch.cartesian_prod(*map(torch.arange, (SENTENCES, BEAMS, QUERIES))).tolist():
        assert torch.equal(folded[b, k * QUERIES + t], rows[b * BEAMS + k, t])


def test_unfold_undoes_fold() -> None:
    rows = random(SENTENCES * BEAMS, QUERIES, WIDTH)
    assert torch.equal(unfold(fold(rows, sentences=SENTENCES), rows=SENTENCES * BEAMS), rows)


def test_rows_are_sampled_apart() -> None:
    torch.manual_seed(2)
    found = module.draw(torch.full((1000, 4), 0.25))
    assert (torch.bincount(found, minlength=4) / 1000 - 0.25).abs().max() < 0.07
