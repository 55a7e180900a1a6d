"""Watching attention changes nothing in any model; interventions change what they are meant to, and nothing after."""

import pytest
import torch
from torch import Tensor

from calque.folders.weights import give_weights_to, weights_of
from calque.layers.observers import attention_layers, change_attention, observe_attention
from calque.models.model import Model
from calque.tensors import weightless
from tests.laws.laws import begin, close, read
from tests.laws.models import MODELS, build, sizes, target


class Recorder:
    """Keeps all weights by layer."""

    def __init__(self) -> None:
        self.weights: dict[str, list[Tensor]] = {}

    def attention(self, layer: str, weights: Tensor) -> None:
        self.weights.setdefault(layer, []).append(weights)


class Blind:
    """An observer that does nothing: attention layers compute their weights explicitly for it."""

    def attention(self, layer: str, weights: Tensor) -> None: ...


def hidden(model: Model) -> Tensor:
    context, start = begin(model)
    output, _ = read(model, target(), start, context)
    return output.hidden


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_watching_attention_changes_nothing(name: str) -> None:
    model, recorder = build(name), Recorder()
    expected = hidden(model)
    with observe_attention(model, recorder):
        watched = hidden(model)
    with observe_attention(model, Blind()):
        assert torch.equal(hidden(model), watched), "recording itself changes no bit"
    close(watched, expected, tolerance=1e-9)
    assert torch.equal(hidden(model), expected), "nothing is left behind"
    assert recorder.weights.keys() == attention_layers(model).keys(), "every layer called the observer"
    assert model.decoder.attends == any(layer.startswith("decoder") for layer in _over_the_source(model))
    for told in recorder.weights.values():
        for weights in told:
            assert weights.dim() == 4
            assert (weights >= 0).all()
            assert (weights.sum(dim=-1) <= 1 + 1e-9).all()


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_an_intervention_changes_its_layer(name: str) -> None:
    model = build(name)
    expected = hidden(model)
    for layer in attention_layers(model):
        with change_attention(model, layer, lambda weights: weights):
            close(hidden(model), expected, tolerance=1e-9)
        with change_attention(model, layer, lambda weights: weights.flip(-1)):
            changed = hidden(model)
        assert not torch.allclose(changed, expected), layer
        assert torch.equal(hidden(model), expected), "nothing is left behind"


@torch.no_grad()
def test_a_layer_that_is_not_there_is_named() -> None:
    model = build("transformer-grouped")
    with (
        pytest.raises(ValueError, match=r"no attention layer 'decoder\.nine'"),
        change_attention(model, "decoder.nine", lambda weights: weights),
    ):
        pass


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_a_model_built_without_storage_takes_the_weights_of_another(name: str) -> None:
    model = build(name, dtype=torch.float32)
    with weightless():
        empty = Model(MODELS[name], sizes=sizes(name))
    weights = weights_of(model)
    give_weights_to(empty, weights, origin="test")
    empty.eval()
    assert not any(tensor.is_meta for tensor in (*empty.parameters(), *empty.buffers()))
    assert [name for name, _ in empty.named_parameters()] == list(weights), "what was shared is shared"
    assert torch.equal(hidden(empty), hidden(model))
    storages = {value.data_ptr() for value in weights.values()}
    assert not any(value.data_ptr() in storages for value in empty.parameters() if value.numel()), "they are copies"


def _over_the_source(model: Model) -> list[str]:
    """The names of attention layers over the source; the others attend to the text that they read."""
    return [layer for layer in attention_layers(model) if "self_attention" not in layer]
