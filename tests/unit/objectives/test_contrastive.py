"""The contrastive loss against its formula, written out pair by pair."""

import math

import pytest
import torch
from torch.testing import assert_close

from calque.objectives.contrastive import contrastive_losses


def formula(source: torch.Tensor, target: torch.Tensor, *, temperature: float, margin: float, excluded) -> list[float]:
    """The loss of each pair as the papers write it, with loops."""
    count = len(source)

    def score(row: int, column: int) -> float:
        product = sum(x * y for x, y in zip(source[row].tolist(), target[column].tolist(), strict=True))
        return (product - (margin if row == column else 0.0)) / temperature

    losses = []
    for pair in range(count):
        allowed = [other for other in range(count) if other == pair or not excluded[pair][other]]
        there = sum(math.exp(score(pair, other)) for other in allowed)
        allowed = [other for other in range(count) if other == pair or not excluded[other][pair]]
        back = sum(math.exp(score(other, pair)) for other in allowed)
        forward, backward = (-math.log(math.exp(score(pair, pair)) / total) for total in (there, back))
        losses.append((forward + backward) / 2)
    return losses


@pytest.mark.parametrize(("temperature", "margin"), [(1.0, 0.0), (0.1, 0.0), (0.3, 0.25)])
@pytest.mark.parametrize("excludes", [False, True])
def test_the_loss_is_the_formula(temperature: float, margin: float, excludes: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    source, target = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    excluded = torch.rand(5, 5, generator=generator) < 0.4
    losses = contrastive_losses(
        source, target, temperature=temperature, margin=margin, excluded=excluded if excludes else None
    )
    table = excluded.tolist() if excludes else [[False] * 5] * 5
    expected = formula(source, target, temperature=temperature, margin=margin, excluded=table)
    assert_close(losses, torch.tensor(expected, dtype=torch.float64))


def test_a_pair_alone_has_no_loss_and_a_margin_raises_it() -> None:
    source, target = torch.eye(4), torch.eye(4)
    assert contrastive_losses(source[:1], target[:1], temperature=0.1).tolist() == [0.0]
    plain, wider = (contrastive_losses(source, target, temperature=0.5, margin=margin).sum() for margin in (0.0, 0.5))
    assert 0 < plain < wider


def test_autocast_does_not_round_the_similarities() -> None:
    source, target = torch.randn(2, 6, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = contrastive_losses(source, target, temperature=0.1)
    assert torch.equal(inside, contrastive_losses(source, target, temperature=0.1))
