"""The sampled softmax against its equation, and its convergence to the full softmax."""

import math

import pytest
import torch
from tests.laws.models import loud

from calque.layers.sampled import SampledOutput, SampledOutputConfig, draw

VOCABULARY, WIDTH = 9, 5
COUNTS = torch.tensor([0, 0, 14, 3, 40, 1, 7, 0, 22])
TARGETS = torch.tensor([4, 7, 2, 4])
FAR = 6  # standard deviations that are not exceeded by chance


def sampled(samples: int) -> tuple[SampledOutput, torch.Tensor]:
    """A layer in training mode and hidden vectors for TARGETS."""
    layer = loud(SampledOutput(SampledOutputConfig(samples=samples), vocabulary_size=VOCABULARY, width=WIDTH)).train()
    layer.learn_frequencies(COUNTS)
    return layer, torch.randn(len(TARGETS), WIDTH, dtype=torch.float64)


def test_the_proposal_is_the_smoothed_relative_frequency() -> None:
    layer, _ = sampled(1)
    assert layer.proposal.tolist() == pytest.approx([(count + 1) / 96 for count in COUNTS.tolist()], abs=1e-15)


@pytest.mark.parametrize("mode", [False, True])
def test_words_are_sampled_with_their_probabilities(mode: bool) -> None:
    """Within FAR standard deviations of n·q; a word with probability 0 is never sampled."""
    probs, count = torch.tensor([0.0, 0.5, 0.02, 0.0, 0.48, 0.0]), 200_000
    torch.use_deterministic_algorithms(mode)
    try:
        counts = draw(probs, count=count).bincount(minlength=len(probs))
    finally:
        torch.use_deterministic_algorithms(False)
    expected = count * probs
    assert ((counts - expected).abs() <= FAR * (expected * (1 - probs)).sqrt()).all()


@pytest.mark.parametrize("samples", [1, 2, 40])
@torch.no_grad()
def test_the_loss_is_its_equation(samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, hidden = sampled(samples)
    recorded: list[list[int]] = []

    def recording_draw(shares: torch.Tensor, *, count: int) -> torch.Tensor:
        samples_drawn = draw(shares, count=count)
        recorded.append(samples_drawn.tolist())
        return samples_drawn

    monkeypatch.setattr("calque.layers.sampled.draw", recording_draw)
    for _ in range(20):
        losses = layer.loss(hidden, TARGETS, smoothing=0.0).tolist()
        (words,) = recorded
        recorded.clear()
        assert len(words) == samples
        for vector, target, loss in zip(hidden, TARGETS.tolist(), losses, strict=True):
            logits = layer.logits(vector).tolist()
            total = math.exp(logits[target])
            for word in words:
                if word != target:
                    total += math.exp(logits[word]) / (samples * float(layer.proposal[word]))
            assert loss == pytest.approx(math.log(total) - logits[target], abs=1e-12)


@pytest.mark.parametrize("samples", [1, 3])
@torch.no_grad()
def test_the_partition_function_is_estimated_without_bias(samples: int) -> None:
    """Its mean over many batches is within FAR exactly known standard errors of Σ e^l."""
    layer, hidden = sampled(samples)
    batches = 4000
    losses = torch.stack([layer.loss(hidden, TARGETS, smoothing=0.0) for _ in range(batches)])
    target_logits = layer.logits(hidden).gather(1, TARGETS[:, None]).squeeze(1)
    error = ((losses + target_logits).exp().mean(0) - partition(layer, hidden)).abs()
    assert (error <= FAR * deviation(layer, hidden) / math.sqrt(samples * batches)).all()


@pytest.mark.parametrize("samples", [10_000, 100_000, 1_000_000])
def test_loss_and_gradient_converge_to_those_of_the_full_softmax(samples: int) -> None:
    """Error bounds decrease as 1/√n.

    Ẑ is within b = FAR·σ/√n of Z, so the loss is within −log(1 − b/Z) of the full loss. A word w ≠ y is sampled
    n·q·(1 ± a) times, a = FAR·√((1 − q) / (n·q)), so ∂loss/∂l_w = p_w·(1 ± a) / (1 ± b/Z).
    """
    layer, hidden = sampled(samples)
    full = torch.stack([layer.logits(vector).log_softmax(-1) for vector in hidden])
    expected = -full.gather(1, TARGETS[:, None]).squeeze(1)
    losses = layer.loss(hidden, TARGETS, smoothing=0.0)
    relative_error = (FAR * deviation(layer, hidden) / math.sqrt(samples) / partition(layer, hidden)).detach()
    assert (relative_error < 0.5 * math.sqrt(10_000 / samples)).all()  # the bounds are not trivial
    assert ((losses - expected).abs() <= -(1 - relative_error).log()).all()
    q = layer.proposal
    count_error = FAR * ((1 - q) / (samples * q)).sqrt()
    tolerance = torch.zeros(())
    for row, target in enumerate(TARGETS.tolist()):
        actual, expected_gradient = (
            torch.autograd.grad(loss[row], layer.bias, retain_graph=True)[0] for loss in (losses, expected)
        )
        slack = expected_gradient.abs() * ((1 + count_error) / (1 - relative_error[row]) - 1)
        slack[target] = slack.sum() - slack[target]  # minus the sum of the others
        assert ((actual - expected_gradient).abs() <= slack).all()
        tolerance = tolerance + slack.norm() * hidden[row].norm()  # ∂l/∂W is h for each position
    gradients = [torch.autograd.grad(loss.sum(), (layer.weight,))[0] for loss in (losses, expected)]
    assert (gradients[0] - gradients[1]).norm() <= tolerance
    assert tolerance < 5 * math.sqrt(10_000 / samples) * gradients[1].norm()


def partition(layer: SampledOutput, hidden: torch.Tensor) -> torch.Tensor:
    """Z = Σ e^l per position."""
    return layer.logits(hidden).exp().sum(-1)


def deviation(layer: SampledOutput, hidden: torch.Tensor) -> torch.Tensor:
    """σ of one sample's estimate of the others' sum: σ² = Σ_{w ≠ y} e^{2l} / q − (Σ_{w ≠ y} e^l)²."""
    others = layer.logits(hidden).exp().scatter(1, TARGETS[:, None], 0.0)
    return ((others**2 / layer.proposal).sum(-1) - others.sum(-1) ** 2).sqrt()


def test_samples_equal_to_the_target_give_no_loss() -> None:
    layer, hidden = sampled(3)
    layer.learn_frequencies(torch.tensor([0, 0, 0, 0, 10**15, 0, 0, 0, 0]))
    hidden.requires_grad_()
    losses = layer.loss(hidden, TARGETS, smoothing=0.0)
    (gradient,) = torch.autograd.grad(losses.sum(), hidden)
    assert losses[[0, 3]].tolist() == [0, 0]
    assert not gradient[[0, 3]].any()
    assert gradient.isfinite().all()


@torch.no_grad()
def test_samples_depend_on_the_seed_and_evaluation_draws_none() -> None:
    layer, hidden = sampled(4)
    losses = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        losses.append(layer.loss(hidden, TARGETS, smoothing=0.0))
    assert torch.equal(losses[0], losses[1])
    assert not torch.equal(losses[0], losses[2])
    layer.eval()
    before = torch.get_rng_state()
    layer.loss(hidden, TARGETS, smoothing=0.1)
    layer.log_probs(hidden)
    assert torch.equal(torch.get_rng_state(), before)


def test_smoothing_is_an_assertion_error_in_training() -> None:
    layer, hidden = sampled(4)
    with pytest.raises(AssertionError, match="smoothing"):
        layer.loss(hidden, TARGETS, smoothing=0.1)
