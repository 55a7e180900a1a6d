"""Agreement against the same said in log-probabilities, which autograd differentiates."""

import pytest
import torch

from calque.objectives.r_drop import agreement, divergence

POSITIONS, WORDS = 5, 7


def plainly(
    logits: torch.Tensor, targets: torch.Tensor, *, counts: torch.Tensor, smoothing: float
) -> list[torch.Tensor]:
    log_probs = logits.log_softmax(dim=-1)
    even = torch.full_like(log_probs, smoothing / WORDS)
    wanted = even.scatter_add(-1, targets.repeat(2)[:, None], torch.full_like(even[:, :1], 1 - smoothing))
    entropies = -(wanted * log_probs).sum(dim=-1).view(2, -1) * counts
    return [entropies.sum(), (divergence(*log_probs.chunk(2)) * counts).sum()]


def drawn(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(2 * POSITIONS, WORDS, dtype=torch.float64, generator=generator)
    targets = torch.randint(WORDS, (POSITIONS,), generator=generator)
    return logits.requires_grad_(), targets, torch.tensor([True, True, False, True, False])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shares", [(1.0, 0.0), (0.0, 1.0), (0.5, 2.5)])
def test_values_and_slopes_are_those_of_the_plain_form(
    shares: tuple[float, float], smoothing: float, seed: int
) -> None:
    logits, targets, counts = drawn(seed)
    ways = [form(logits, targets, counts=counts, smoothing=smoothing) for form in (agreement, plainly)]
    for one, other in zip(*ways, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    one, other = (
        torch.autograd.grad(sum(share * each for share, each in zip(shares, way, strict=True)), logits)[0]
        for way in ways
    )
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    assert not one.view(2, POSITIONS, WORDS)[:, ~counts].any()


def test_slopes_are_those_of_small_differences(seed: int) -> None:
    logits, targets, counts = drawn(seed)
    assert torch.autograd.gradcheck(lambda values: agreement(values, targets, counts=counts, smoothing=0.1), logits)


def test_words_that_are_next_to_impossible_stay_finite() -> None:
    logits = torch.tensor([[90.0, -90.0, 0.0], [-90.0, 90.0, 0.0]], requires_grad=True)
    found = agreement(logits, torch.tensor([1]), counts=torch.ones(1), smoothing=0.1)
    (found.cross_entropy + found.apart).backward()
    assert logits.grad is not None
    assert found.apart.item() == pytest.approx(180.0)
    assert logits.grad.isfinite().all() and found.cross_entropy.isfinite()
