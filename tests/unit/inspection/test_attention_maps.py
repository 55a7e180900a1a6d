"""Attention maps: shapes, sums and causality over all models, and the model's own mean."""

import math

import pytest
import torch
from tests.laws.models import MODELS, build

from calque.inspection.attention_maps import MEAN, read
from calque.layers.copying import CopyGate
from calque.layers.observers import attention_layers
from calque.text import EOS

SOURCE, TARGET = [4, 7, 5, 9], [6, 4, 8, EOS]
SOME = [*MODELS][::7]


@pytest.mark.parametrize("name", SOME)
def test_every_layer_has_a_map_of_distributions(name: str) -> None:
    model = build(name)
    reading = read(model, SOURCE, TARGET)
    layers = [item for item in reading.maps if item.name != MEAN]
    assert {item.name for item in layers} == attention_layers(model).keys()
    for item in layers:
        rows = {"source": len(TARGET), "encoder": len(SOURCE) + 1, "decoder": len(TARGET)}[item.kind]
        columns = len(TARGET) if item.kind == "decoder" else len(SOURCE) + 1
        assert item.weights.shape == (item.heads, rows, columns)
        assert item.weights.min() >= 0
        assert item.weights.max() <= 1 + 1e-9
        if item.kind == "decoder":
            assert torch.equal(item.weights, item.weights.tril()), "no piece attends to a later one"
    assert (reading.maps[0].name == MEAN) == model.decoder.attends if reading.maps else not model.decoder.attends


@pytest.mark.parametrize("name", SOME)
def test_reading_gives_the_log_probabilities_of_the_model(name: str) -> None:
    model = build(name)
    reading = read(model, SOURCE, TARGET)
    assert reading.log_probs.shape[0] == len(TARGET)
    torch.testing.assert_close(
        reading.log_probs.exp().sum(dim=1), torch.ones(len(TARGET), dtype=reading.log_probs.dtype)
    )
    assert (reading.copying is not None) == model.copies


def test_the_reported_map_of_every_family() -> None:
    """One layer: its heads' mean; a Transformer: that of the layer that it reports; ConvS2S: the mean of its layers."""
    for name, layers in (("luong-dot", [0]), ("transformer-pre", [-1]), ("conv", slice(None))):
        reading = read(build(name), SOURCE, TARGET)
        over_source = [item.weights.mean(dim=0) for item in reading.maps if item.kind == "source" and item.name != MEAN]
        chosen = over_source[layers] if isinstance(layers, slice) else [over_source[index] for index in layers]
        torch.testing.assert_close(reading.maps[0].weights[0], torch.stack(chosen).mean(dim=0))


@pytest.mark.parametrize("name", [name for name in SOME if "local" not in name and "hard" not in name])
def test_attention_to_the_source_sums_to_one(name: str) -> None:
    for item in read(build(name), SOURCE, TARGET).maps:
        torch.testing.assert_close(item.weights.sum(dim=-1), torch.ones_like(item.weights[..., 0]))


def test_copying_is_the_probability_of_copying() -> None:
    """A gate that always generates, with probability σ(5), copies with σ(−5)."""
    name = next(name for name in MODELS if build(name).copies)
    model = build(name)
    for module in model.modules():
        if isinstance(module, CopyGate):
            torch.nn.init.zeros_(module.dense.weight)
            torch.nn.init.constant_(module.dense.bias, 5.0)
    copying = read(model, SOURCE, TARGET).copying
    assert copying == pytest.approx([1 / (1 + math.exp(5))] * len(TARGET))
