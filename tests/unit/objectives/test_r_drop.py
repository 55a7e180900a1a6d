"""R-Drop against its formula written plainly, with the same dropout in both passes."""

import math

import pytest
import torch
from tests.conftest import FAMILIES
from tests.unit.objectives.objects import SHAPES, gradients, make_batch, make_model, translation_loss

from calque.objectives import r_drop
from calque.objectives.objective import Objective, ObjectiveConfig
from calque.objectives.r_drop import divergence, duplicated, r_drop_loss
from calque.text import PAD

R_DROP = ObjectiveConfig.model_validate({"method": {"kind": "r-drop", "alpha": 3.0}})


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_without_dropout_it_is_cross_entropy(family: str, shape) -> None:
    model, batch = make_model(family), make_batch(shape)
    expected = translation_loss(model, batch, smoothing=0.1)
    loss = Objective(R_DROP, smoothing=0.1)(model, batch, step=1)
    assert loss.objective.item() == pytest.approx(expected.objective.item(), abs=1e-9)
    assert loss.cross_entropy.item() == pytest.approx(expected.cross_entropy.item(), abs=1e-9)
    slopes, expected_slopes = gradients(model, loss.objective), gradients(model, expected.objective)
    assert all(torch.allclose(slopes[name], slope, rtol=0, atol=1e-9) for name, slope in expected_slopes.items())


def plain_loss(log_probs: torch.Tensor, targets: list[list[int]], *, smoothing: float, alpha: float) -> torch.Tensor:
    """Half of eq. 4, word by word, from the log-probabilities [2B,T,V] of both passes."""
    total = torch.zeros((), dtype=torch.float64)
    for row, words in enumerate(targets):
        for position, word in enumerate(words):
            p, q = log_probs[row, position], log_probs[row + len(targets), position]
            for log_prob in (p, q):
                total = total - (1 - smoothing) * log_prob[word] - smoothing * log_prob.mean()
            total = total + alpha / 2 * (p.exp() * (p - q)).sum()
            total = total + alpha / 2 * (q.exp() * (q - p)).sum()
    return total / 2


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_the_papers_formula_and_both_passes_have_gradients(family: str) -> None:
    model, batch = make_model(family).train(), make_batch()
    targets = [
        row[:length] for row, length in zip(batch.target_output.tolist(), batch.target_lengths.tolist(), strict=True)
    ]
    torch.manual_seed(3)
    loss = Objective(R_DROP, smoothing=0.1)(model, batch, step=1).objective
    slopes = gradients(model, loss)
    torch.manual_seed(3)
    both = duplicated(batch)
    log_probs = model.output.log_probs(model(both.source, both.target_input).hidden)
    expected = plain_loss(log_probs, targets, smoothing=0.1, alpha=3.0)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-9)
    expected_slopes = gradients(model, expected)
    assert all(torch.allclose(slopes[name], slope, rtol=0, atol=1e-9) for name, slope in expected_slopes.items())
    kl = (expected - plain_loss(log_probs, targets, smoothing=0.1, alpha=0.0)) / 1.5
    assert kl.item() > 1e-3  # dropout makes them differ
    (slope,) = torch.autograd.grad(kl, log_probs)
    assert slope[: len(targets)].abs().sum() > 0
    assert slope[len(targets) :].abs().sum() > 0


def test_padding_that_is_not_removed_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where the number of positions without padding is unknown to the host."""
    model, both = make_model("transformer"), duplicated(make_batch(SHAPES[1]))
    assert (both.target_output == PAD).any()
    output = model(both.source, both.target_input)
    losses = [r_drop_loss(model, output, both, smoothing=0.1, alpha=3.0)]
    monkeypatch.setattr(r_drop, "without_padding", lambda hidden, targets: (hidden.flatten(0, 1), targets.flatten()))
    losses.append(r_drop_loss(model, output, both, smoothing=0.1, alpha=3.0))
    slopes = [gradients(model, loss.objective) for loss in losses]
    assert losses[1].objective.item() == pytest.approx(losses[0].objective.item(), abs=1e-9)
    assert all(torch.allclose(slopes[1][name], slopes[0][name], rtol=0, atol=1e-9) for name in slopes[0])


def test_the_divergence_is_symmetric_and_zero_for_equals() -> None:
    p, q = (torch.tensor(probs).log() for probs in ([0.5, 0.25, 0.25], [0.25, 0.5, 0.25]))
    expected = 0.5 * (0.25 * math.log(2) + 0.25 * math.log(2))
    assert divergence(p, q).item() == pytest.approx(expected)
    assert divergence(q, p).item() == pytest.approx(expected)
    assert divergence(p, p).item() == 0


def test_words_that_are_impossible_in_both_passes_change_nothing() -> None:
    """Models that copy give −∞ to ids that no source word has."""
    p, q = (torch.tensor(probs).log() for probs in ([0.5, 0.5, 0.0], [0.25, 0.75, 0.0]))
    p.requires_grad_()
    loss = divergence(p, q)
    loss.backward()
    assert loss.item() == pytest.approx(divergence(p[:2], q[:2]).item())
    assert p.grad is not None
    assert p.grad.isfinite().all()


@pytest.mark.parametrize("overrides", [["decoder.copies=true"], ["decoder.attention.coverage=true"]])
def test_losses_of_copying_and_coverage_are_kept(overrides: list[str]) -> None:
    model = make_model("luong", *overrides)
    batch = make_batch(SHAPES[0], pairs=[([8, 5, 9], [9, 4, 8]), ([4], [4, 4])])
    expected = translation_loss(model, batch, smoothing=0.1)
    both = duplicated(batch)
    output = model(both.source, both.target_input)
    loss = r_drop_loss(model, output, both, smoothing=0.1, alpha=2.0)
    assert loss.objective.item() == pytest.approx(expected.objective.item(), abs=1e-9)
    assert loss.cross_entropy.item() == pytest.approx(expected.cross_entropy.item(), abs=1e-9)
    assert (expected.objective.item() > expected.cross_entropy.item()) == ("coverage" in overrides[0])


def test_a_duplicated_batch_is_every_row_and_then_every_row_again() -> None:
    batch = make_batch(SHAPES[1])
    both = duplicated(batch)
    assert both.weight == 2 * batch.weight == int((both.target_output != PAD).sum())
    assert both.source.lengths.tolist() == batch.source.lengths.tolist() * 2
    for name in ("target_input", "target_output", "target_lengths"):
        assert torch.equal(getattr(both, name), torch.cat([getattr(batch, name)] * 2))
