"""The terms of R-Drop and their gradients, against log-probabilities that autograd differentiates."""

import pytest
import torch

from calque.objectives.r_drop import agreement, divergence

POSITIONS, WORDS = 5, 7


def plain_terms(
    logits: torch.Tensor, targets: torch.Tensor, *, counts: torch.Tensor, smoothing: float
) -> list[torch.Tensor]:
    log_probs = logits.log_softmax(dim=-1)
    uniform = torch.full_like(log_probs, smoothing / WORDS)
    smoothed = uniform.scatter_add(-1, targets.repeat(2)[:, None], torch.full_like(uniform[:, :1], 1 - smoothing))
    entropies = -(smoothed * log_probs).sum(dim=-1).view(2, -1) * counts
    return [entropies.sum(), (divergence(*log_probs.chunk(2)) * counts).sum()]


def random_inputs(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(2 * POSITIONS, WORDS, dtype=torch.float64, generator=generator)
    targets = torch.randint(WORDS, (POSITIONS,), generator=generator)
    return logits.requires_grad_(), targets, torch.tensor([True, True, False, True, False])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shares", [(1.0, 0.0), (0.0, 1.0), (0.5, 2.5)])
def test_values_and_gradients_are_those_of_the_plain_form(
    shares: tuple[float, float], smoothing: float, seed: int
) -> None:
    logits, targets, counts = random_inputs(seed)
    forms = [form(logits, targets, counts=counts, smoothing=smoothing) for form in (agreement, plain_terms)]
    for term, expected in zip(*forms, strict=True):
        torch.testing.assert_close(term, expected, rtol=1e-12, atol=1e-12)
    gradient, expected = (
        torch.autograd.grad(sum(share * term for share, term in zip(shares, terms, strict=True)), logits)[0]
        for terms in forms
    )
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-12)
    assert not gradient.view(2, POSITIONS, WORDS)[:, ~counts].any()


def test_gradients_equal_finite_differences(seed: int) -> None:
    logits, targets, counts = random_inputs(seed)
    assert torch.autograd.gradcheck(lambda values: agreement(values, targets, counts=counts, smoothing=0.1), logits)


def test_words_that_are_next_to_impossible_stay_finite() -> None:
    logits = torch.tensor([[90.0, -90.0, 0.0], [-90.0, 90.0, 0.0]], requires_grad=True)
    terms = agreement(logits, torch.tensor([1]), counts=torch.ones(1), smoothing=0.1)
    (terms.cross_entropy + terms.divergence).backward()
    assert logits.grad is not None
    assert terms.divergence.item() == pytest.approx(180.0)
    assert logits.grad.isfinite().all() and terms.cross_entropy.isfinite()
