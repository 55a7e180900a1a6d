"""Guided alignment against its formula, and attention that learns alignments."""

import math

import pytest
import torch
from tests.conftest import FAMILIES
from tests.unit.objectives.objects import SHAPES, gradients, make_batch, make_model, translation_loss

from calque.config import check
from calque.data.corpora import DataConfig
from calque.data.subword_regularisation import BpeDropoutConfig, FixedConfig
from calque.errors import ConfigError
from calque.models.model import ModelConfig
from calque.objectives.guided_alignment import GuidanceConfig, guidance_loss, guidance_weight
from calque.objectives.objective import Objective, ObjectiveConfig, misfits

ATTENDING = [family for family in FAMILIES if family != "plain"]
LINKS = {0: [(0, 0), (2, 1), (1, 1)], 1: [(0, 0), (0, 1), (0, 4)], 3: [(1, 0), (0, 1), (0, 2), (1, 2)]}


def aligned(shape):
    """The batch with LINKS as its guide, computed plainly."""
    batch = make_batch(shape)
    guide = torch.zeros(*batch.target_input.shape, batch.source.values.shape[1])
    for row, links in LINKS.items():
        for source, target in links:
            guide[row, target, source] = 1 / sum(linked == target for _, linked in links)
    return batch._replace(guide=guide)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", ATTENDING)
def test_it_is_the_cross_entropy_of_attention(family: str, shape) -> None:
    model, batch = make_model(family), aligned(shape)
    config = check(ObjectiveConfig, {"guidance": {"weight": 0.3}}, origin="test")
    loss = Objective(config, smoothing=0.1)(model, batch, step=5)
    unguided = translation_loss(model, batch, smoothing=0.1)
    attention = model(batch.source, batch.target_input, attention=True).attention
    expected = 0.0
    for row, links in LINKS.items():
        for source, target in links:
            share = 1 / sum(linked == target for _, linked in links)
            expected -= share * math.log(attention[row, target, source].item())
    assert expected > 1
    assert loss.objective.item() == pytest.approx(unguided.objective.item() + 0.3 * expected, abs=1e-6)
    assert loss.cross_entropy.item() == pytest.approx(unguided.cross_entropy.item(), abs=1e-9)


@pytest.mark.parametrize("family", ATTENDING)
def test_attention_learns_the_alignments(family: str) -> None:
    model, batch = make_model(family).float(), aligned(SHAPES[0])
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    costs = []
    for _ in range(40):
        attention = model(batch.source, batch.target_input, attention=True).attention
        loss = guidance_loss(attention, batch.guide)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        costs.append(loss.item())
    floor = (-(batch.guide * batch.guide.clamp(min=1e-9).log())).sum().item()  # the entropy of the guide
    assert costs[-1] - floor < 0.3 * (costs[0] - floor)


@pytest.mark.parametrize("layer", [1, 2, 3])
def test_a_transformers_layer_can_be_chosen(layer: int) -> None:
    overrides = ["decoder.layers=3", f"decoder.attention_layer={layer}"]
    model, batch = make_model("transformer", *overrides), aligned(SHAPES[0])
    attention = model(batch.source, batch.target_input, attention=True).attention
    slopes = gradients(model, guidance_loss(attention, batch.guide))
    reached = {name.split(".")[2] for name in slopes if name.startswith("decoder.blocks.")}
    assert reached == {str(number) for number in range(layer)}  # nothing above it


def test_the_last_layer_is_the_default_and_the_layer_must_exist() -> None:
    batch = make_batch()
    models = [make_model("transformer", "decoder.layers=2", *more) for more in (["decoder.attention_layer=2"], [])]
    last, default = (model(batch.source, batch.target_input, attention=True).attention for model in models)
    assert torch.equal(last, default)
    with pytest.raises(ConfigError, match="attention_layer is 4: it must be between 1 and layers = 3"):
        check(ModelConfig, {"decoder": {"kind": "transformer", "layers": 3, "attention_layer": 4}}, origin="test")


def test_positions_outside_the_window_have_a_large_finite_cost() -> None:
    attention = torch.tensor([[[1.0, 0.0]]], requires_grad=True)
    loss = guidance_loss(attention, torch.tensor([[[0.5, 0.5]]]))
    loss.backward()
    assert 20 < loss.item() < 100
    assert attention.grad.isfinite().all()


def test_the_weight_halves() -> None:
    assert guidance_weight(GuidanceConfig(weight=0.8), step=10**6) == 0.8
    halving = GuidanceConfig(weight=0.8, half_life=100)
    assert [guidance_weight(halving, step=step) for step in (0, 100, 300)] == pytest.approx([0.8, 0.4, 0.1])


def test_guidance_needs_alignments_of_the_pieces_that_are_read() -> None:
    config = check(ObjectiveConfig, {"guidance": {"weight": 0.3}}, origin="test")
    model = ModelConfig.model_validate(FAMILIES["luong"])
    values = {"train": [{"kind": "files", "source": "a", "target": "b"}]}
    data = check(DataConfig, values, origin="test")
    (problem,) = misfits(config, model=model, data=data, subwords=FixedConfig())
    assert "needs word alignments" in problem
    values["train"][0]["alignments"] = "c"
    data = check(DataConfig, values, origin="test")
    assert misfits(config, model=model, data=data, subwords=FixedConfig()) == []
    (problem,) = misfits(config, model=model, data=data, subwords=BpeDropoutConfig())
    assert "training.subwords.kind" in problem
