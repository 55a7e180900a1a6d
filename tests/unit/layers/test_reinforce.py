"""The gradient estimator of hard attention is unbiased: against enumeration of all samples."""

import itertools

import pytest
import torch
from tests.laws.families.attention import MODELS
from tests.laws.models import JOINT, SIZES, loud, source, target

from calque.data.pair_batch import PairBatch
from calque.layers import attention as module
from calque.layers.reinforce import Draws, MovingBaseline, reinforced
from calque.models.luong import LuongConfig
from calque.models.model import Model, ModelConfig
from calque.objectives.cross_entropy import loss_of
from calque.tensors import Padded
from calque.text import PAD

SOURCE, TARGET = 3, 3
FEEDING = MODELS["feeding general global hard gated"]
FAMILIES = {
    "luong": FEEDING.model_copy(update={"decoder": FEEDING.decoder.model_copy(update={"input_feeding": False})}),
    "feeding": FEEDING,
    "bahdanau": MODELS["bahdanau concat local-p hard gated"],
    "gnmt": MODELS["gnmt location local-m hard coverage"],
    "copying": MODELS["bahdanau dot local-m hard gated coverage copies"],
}


def without_noise(config: ModelConfig) -> ModelConfig:
    """No dropout and no soft sentences, so that only the samples are random; weight and discount are 1."""
    encoder, decoder = (part.model_copy(update={"dropout": 0.0}) for part in (config.encoder, config.decoder))
    attention = decoder.attention.model_copy(update={"soft_share": 0.0, "reinforce": 1.0, "discount": 1.0})
    return config.model_copy(
        update={"encoder": encoder, "decoder": decoder.model_copy(update={"attention": attention})}
    )


def one_sentence() -> PairBatch:
    words = target()[:1, :TARGET].clamp(min=PAD + 1)
    pair = Padded(source().values[:1, :SOURCE], torch.tensor([SOURCE]))
    return PairBatch(pair, words, words, torch.tensor([TARGET]), weight=TARGET, shared_weight=TARGET)


@pytest.mark.parametrize("family", FAMILIES)
def test_expected_gradient_is_the_gradient_of_the_expected_loss(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Σ π(a)·estimate(a) = ∇ Σ π(a)·loss(a), over all samples a, with a non-zero baseline.

    The estimate is the gradient of the training objective.
    """
    model = loud(Model(without_noise(FAMILIES[family]), sizes=JOINT if family == "copying" else SIZES)).train()
    model.baseline.value.fill_(-0.7)
    batch = one_sentence()
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    expected_loss, estimate = torch.zeros((), dtype=torch.float64), [torch.zeros_like(weight) for weight in weights]
    total = 0.0
    for positions in itertools.product(range(SOURCE), repeat=TARGET):
        output = read_with_samples(model, batch.source, batch.target_input, positions, monkeypatch)
        losses = model.losses(output, batch.source.values, batch.target_output, smoothing=0.0, ignored=PAD)
        losses = losses + sum(output.losses.values())
        probability = output.chosen.sum().exp()
        if probability.item() < 1e-200:
            continue  # outside the window: never sampled
        total += probability.item()
        objective = loss_of(model, output, batch, smoothing=0.0).objective
        gradient = torch.autograd.grad(objective, weights, retain_graph=True, allow_unused=True)
        estimate = [
            total_part if part is None else total_part + probability.detach() * part
            for total_part, part in zip(estimate, gradient, strict=True)
        ]
        expected_loss = expected_loss + probability * losses.sum()
    assert total == pytest.approx(1.0)
    expected = torch.autograd.grad(expected_loss, weights, allow_unused=True)
    assert any(part is not None and part.abs().max() > 1e-3 for part in expected)
    for ours, theirs in zip(estimate, expected, strict=True):
        torch.testing.assert_close(ours, torch.zeros_like(ours) if theirs is None else theirs, rtol=1e-9, atol=1e-9)


def read_with_samples(model, sentence, tokens, positions, monkeypatch):
    """The model's output for tokens when it samples these positions, one per step."""
    remaining = iter(positions)

    def draw(shares: torch.Tensor) -> torch.Tensor:
        return torch.tensor([[next(remaining) for _ in range(shares.shape[1])]])

    monkeypatch.setattr(module, "draw", draw)
    return model(sentence, tokens)


def test_the_objective_uses_the_models_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    """It differs by b Σₜ (T − t) log π(aₜ) from a zero baseline; this is 0 in expectation, unseen by the test above."""
    model = loud(Model(without_noise(FEEDING), sizes=SIZES)).train()
    batch, objectives = one_sentence(), []
    for value in (0.0, -0.7):
        model.baseline.value.fill_(value)
        output = read_with_samples(model, batch.source, batch.target_input, (0, 2, 1), monkeypatch)
        objectives.append(loss_of(model, output, batch, smoothing=0.0).objective.item())
    remaining = torch.arange(TARGET, 0, -1)
    assert objectives[1] - objectives[0] == pytest.approx(-0.7 * (remaining * output.chosen).sum().item(), abs=1e-9)


@pytest.mark.parametrize("weight", [1.0, 0.1])
@pytest.mark.parametrize("discount", [0.0, 0.5, 1.0])
def test_a_sample_is_credited_with_its_own_and_discounted_later_rewards(discount, weight) -> None:
    """∂/∂log π(aₜ) = −λ Σ_{k≥t} γᵏ⁻ᵗ (rₖ − b), summed term by term."""
    chosen = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    losses, counts = torch.rand(2, 4, dtype=torch.float64), torch.tensor([[True] * 4, [True, True, False, False]])
    baseline, draws = torch.tensor(-0.7, dtype=torch.float64), Draws(weight, discount)
    reinforced(chosen, losses=losses, counts=counts, baseline=baseline, draws=draws).backward()
    for row, size in ((0, 4), (1, 2)):
        for t in range(4):
            rewards = [-losses[row, k].item() + 0.7 for k in range(t, size)]
            expected = -weight * sum(discount**later * reward for later, reward in enumerate(rewards))
            assert chosen.grad[row, t].item() == pytest.approx(expected, abs=1e-12)


def test_the_baseline_moves_towards_the_mean_reward() -> None:
    baseline = MovingBaseline()
    baseline.follow(torch.tensor(-6.0), torch.tensor(2.0))
    assert baseline.value.item() == pytest.approx(0.9 * 0 + 0.1 * -3), "b ← 0.9 b + 0.1 r̄"
    for _ in range(99):
        baseline.follow(torch.tensor(-6.0), torch.tensor(2.0))
    assert baseline.value.item() == pytest.approx(-3.0, abs=1e-3)


def test_the_baseline_is_saved_with_the_weights() -> None:
    names = {name for name, _ in Model(FEEDING, sizes=SIZES).named_parameters()}
    assert "baseline.value" in names
    soft = ModelConfig(encoder=FEEDING.encoder, decoder=LuongConfig(layers=2, width=6, embedding=7))
    assert "baseline.value" not in {name for name, _ in Model(soft, sizes=SIZES).named_parameters()}


def test_the_baseline_is_unchanged_by_rewards_that_are_not_finite() -> None:
    """An update that is not finite is skipped; it must not affect later ones."""
    baseline = MovingBaseline()
    baseline.follow(torch.tensor(-12.0), torch.tensor(6.0))
    before = float(baseline.value)
    baseline.follow(torch.tensor(float("nan")), torch.tensor(6.0))
    baseline.follow(torch.zeros(()), torch.zeros(()))  # no samples
    assert float(baseline.value) == before == pytest.approx(-0.2)
