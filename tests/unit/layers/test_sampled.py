"""The sampled softmax: by its equation, and that it comes to the full one as samples grow."""

import math

import pytest
import torch
from tests.laws.models import loud

from calque.layers.sampled import SampledOutput, SampledOutputConfig, draw

VOCABULARY, WIDTH = 9, 5
COUNTS = torch.tensor([0, 0, 14, 3, 40, 1, 7, 0, 22])
TARGETS = torch.tensor([4, 7, 2, 4])
FAR = 6  # standard deviations that chance does not reach


def sampled(samples: int) -> tuple[SampledOutput, torch.Tensor]:
    """A layer in training mode and hidden vectors for TARGETS."""
    layer = loud(SampledOutput(SampledOutputConfig(samples=samples), vocabulary_size=VOCABULARY, width=WIDTH)).train()
    layer.learn_frequencies(COUNTS)
    return layer, torch.randn(len(TARGETS), WIDTH, dtype=torch.float64)


def test_the_proposal_is_the_smoothed_share_of_each_word() -> None:
    layer, _ = sampled(1)
    assert layer.proposal.tolist() == pytest.approx([(count + 1) / 96 for count in COUNTS.tolist()], abs=1e-15)


@pytest.mark.parametrize("mode", [False, True])
def test_words_are_drawn_as_often_as_they_should_be(mode: bool) -> None:
    """Within FAR standard deviations of n·q; a word that is never said is never drawn."""
    shares, count = torch.tensor([0.0, 0.5, 0.02, 0.0, 0.48, 0.0]), 200_000
    torch.use_deterministic_algorithms(mode)
    try:
        found = draw(shares, count=count).bincount(minlength=len(shares))
    finally:
        torch.use_deterministic_algorithms(False)
    expected = count * shares
    assert ((found - expected).abs() <= FAR * (expected * (1 - shares)).sqrt()).all()


@pytest.mark.parametrize("samples", [1, 2, 40])
@torch.no_grad()
def test_the_loss_is_its_equation(samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, hidden = sampled(samples)
    drawn: list[list[int]] = []

    def listen(shares: torch.Tensor, *, count: int) -> torch.Tensor:
        found = draw(shares, count=count)
        drawn.append(found.tolist())
        return found

    monkeypatch.setattr("calque.layers.sampled.draw", listen)
    for _ in range(20):
        losses = layer.loss(hidden, TARGETS, smoothing=0.0).tolist()
        (words,) = drawn
        drawn.clear()
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
    """Its mean over many batches is Σ e^l within FAR standard errors, which are known exactly."""
    layer, hidden = sampled(samples)
    batches = 4000
    losses = torch.stack([layer.loss(hidden, TARGETS, smoothing=0.0) for _ in range(batches)])
    true = layer.logits(hidden).gather(1, TARGETS[:, None]).squeeze(1)
    error = ((losses + true).exp().mean(0) - partition(layer, hidden)).abs()
    assert (error <= FAR * deviation(layer, hidden) / math.sqrt(samples * batches)).all()


@pytest.mark.parametrize("samples", [10_000, 100_000, 1_000_000])
def test_loss_and_gradient_come_to_those_of_the_full_softmax(samples: int) -> None:
    """Bounds shrink as 1/√n.

    Ẑ is within b = FAR·σ/√n of Z, so the loss is within −log(1 − b/Z) of its own. A word w ≠ y is drawn n·q·(1 ± a)
    times, a = FAR·√((1 − q) / (n·q)), so ∂loss/∂l_w = p_w·(1 ± a) / (1 ± b/Z).
    """
    layer, hidden = sampled(samples)
    full = torch.stack([layer.logits(vector).log_softmax(-1) for vector in hidden])
    expected = -full.gather(1, TARGETS[:, None]).squeeze(1)
    losses = layer.loss(hidden, TARGETS, smoothing=0.0)
    apart = (FAR * deviation(layer, hidden) / math.sqrt(samples) / partition(layer, hidden)).detach()
    assert (apart < 0.5 * math.sqrt(10_000 / samples)).all()  # bounds that say something
    assert ((losses - expected).abs() <= -(1 - apart).log()).all()
    q = layer.proposal
    drawn = FAR * ((1 - q) / (samples * q)).sqrt()
    room = torch.zeros(())
    for row, target in enumerate(TARGETS.tolist()):
        found, wanted = (
            torch.autograd.grad(loss[row], layer.bias, retain_graph=True)[0] for loss in (losses, expected)
        )
        slack = wanted.abs() * ((1 + drawn) / (1 - apart[row]) - 1)
        slack[target] = slack.sum() - slack[target]  # it is minus the sum of the others
        assert ((found - wanted).abs() <= slack).all()
        room = room + slack.norm() * hidden[row].norm()  # ∂l/∂W is h for each position
    gradients = [torch.autograd.grad(loss.sum(), (layer.weight,))[0] for loss in (losses, expected)]
    assert (gradients[0] - gradients[1]).norm() <= room
    assert room < 5 * math.sqrt(10_000 / samples) * gradients[1].norm()


def partition(layer: SampledOutput, hidden: torch.Tensor) -> torch.Tensor:
    """Z = Σ e^l of each position."""
    return layer.logits(hidden).exp().sum(-1)


def deviation(layer: SampledOutput, hidden: torch.Tensor) -> torch.Tensor:
    """σ of one sample's estimate of the others' sum: σ² = Σ_{w ≠ y} e^{2l} / q − (Σ_{w ≠ y} e^l)²."""
    others = layer.logits(hidden).exp().scatter(1, TARGETS[:, None], 0.0)
    return ((others**2 / layer.proposal).sum(-1) - others.sum(-1) ** 2).sqrt()


def test_samples_that_are_all_the_target_lose_nothing() -> None:
    layer, hidden = sampled(3)
    layer.learn_frequencies(torch.tensor([0, 0, 0, 0, 10**15, 0, 0, 0, 0]))
    hidden.requires_grad_()
    losses = layer.loss(hidden, TARGETS, smoothing=0.0)
    (gradient,) = torch.autograd.grad(losses.sum(), hidden)
    assert losses[[0, 3]].tolist() == [0, 0]
    assert not gradient[[0, 3]].any()
    assert gradient.isfinite().all()


@torch.no_grad()
def test_samples_follow_the_seed_and_evaluation_draws_none() -> None:
    layer, hidden = sampled(4)
    found = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        found.append(layer.loss(hidden, TARGETS, smoothing=0.0))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    layer.eval()
    before = torch.get_rng_state()
    layer.loss(hidden, TARGETS, smoothing=0.1)
    layer.log_probs(hidden)
    assert torch.equal(torch.get_rng_state(), before)


def test_smoothing_is_a_programmers_mistake_in_training() -> None:
    layer, hidden = sampled(4)
    with pytest.raises(AssertionError, match="smoothing"):
        layer.loss(hidden, TARGETS, smoothing=0.1)
