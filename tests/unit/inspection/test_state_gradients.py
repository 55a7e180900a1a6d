"""∂J(i)/∂h(j): all sentences at once as each by itself, and linear networks as their closed forms."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.laws.models import MODELS, SENTENCES, SIZES, build, source
from torch import Tensor

from calque.data.pair_batch import PairBatch
from calque.data.text_batch import TextBatch
from calque.inspection.gradient_flow import distance_pairs, factor_per_step, gradient_flow
from calque.inspection.recurrence_spectrum import describe_recurrences, spectrum, step_bound
from calque.inspection.state_gradients import BatchGradients, batch_gradients, reference_gradients, token_losses
from calque.inspection.state_recording import record_states, state_places
from calque.layers.observers import StateLayer
from calque.layers.recurrent import Recurrence
from calque.models.language_model import LanguageModel, LanguageModelConfig, RecurrentLanguageConfig
from calque.models.model import Model, ModelConfig
from calque.models.recurrent import RecurrentDecoderConfig, RecurrentEncoderConfig
from calque.tensors import Padded
from calque.text import PAD

CHOSEN = (
    *("rnn", "lstm", "gru-original-bidirectional", "cho", "cho-lstm-reversed", "plain gru dense 3 reverse copy"),
    "plain rnn-relu residual first 3 layer_norm reverse tanh",
    "plain gru highway bidirectional 3 layer_norm reverse copy",
    *("luong-general-feeding", "bahdanau", "gnmt", "conv", "conv-encoder-lstm-decoder"),
    *("transformer-pre", "transformer-relative-multi-query-copy", "transformer-ssru", "output-adaptive-transformer"),
    *("mean-encoder-luong-decoder", "feeding general local-p soft coverage copies"),
    "luong scaled_dot local-m hard gated coverage copies",
)
TARGET_LENGTHS = torch.tensor([5, 3, 4])


def pair_batch() -> PairBatch:
    """Sentences of different lengths on both sides."""
    generator = torch.Generator().manual_seed(5)
    size = int(TARGET_LENGTHS.max())
    inputs, outputs = (torch.randint(4, SIZES.target, (SENTENCES, size), generator=generator) for _ in range(2))
    outputs[torch.arange(size) >= TARGET_LENGTHS[:, None]] = PAD
    weight = int(TARGET_LENGTHS.sum())
    return PairBatch(source(), inputs, outputs, TARGET_LENGTHS, weight, weight)


def alone(batch: PairBatch, row: int) -> PairBatch:
    """One sentence of a batch, without padding."""
    length, source_length = int(batch.target_lengths[row]), int(batch.source.lengths[row])
    return PairBatch(
        Padded(batch.source.values[row : row + 1, :source_length], batch.source.lengths[row : row + 1]),
        batch.target_input[row : row + 1, :length],
        batch.target_output[row : row + 1, :length],
        batch.target_lengths[row : row + 1],
        length,
        length,
    )


@pytest.mark.parametrize("name", CHOSEN)
def test_all_sentences_at_once_equal_each_by_itself(name: str) -> None:
    model, batch = build(name), pair_batch()
    gradients = batch_gradients(model, batch)
    assert {(item.place.name, item.state) for item in gradients.norms} == set(
        reference_gradients(model, alone(batch, 0))
    )
    for row in range(SENTENCES):
        clear = reference_gradients(model, alone(batch, row))
        for item in gradients.norms:
            expected = torch.tensor(clear[item.place.name, item.state], dtype=torch.float64)
            losses, positions = expected.shape
            torch.testing.assert_close(item.norms[row, :losses, :positions], expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_recording_changes_nothing_and_leaves_nothing_behind(name: str) -> None:
    model, batch = build(name), pair_batch()
    expected = token_losses(model, batch).losses
    with record_states(model) as recording:
        recorded = token_losses(model, batch).losses
    torch.testing.assert_close(recorded, expected, rtol=0, atol=1e-9)
    assert torch.equal(token_losses(model, batch).losses, expected)
    assert all(layer.state_observer is None for layer in model.modules() if isinstance(layer, StateLayer))
    assert all(layer.states() for layer in recording.layers), "every layer was computed"
    assert {layer.place.side for layer in recording.layers} == {"encoder", "decoder"}


@pytest.mark.parametrize("name", CHOSEN)
def test_gradients_leave_the_model_as_it_is(name: str) -> None:
    model = build(name)
    model.train()
    gradients = batch_gradients(model, pair_batch())
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert any(float(item.norms.max()) > 0 for item in gradients.norms)


def test_a_later_state_has_no_effect_on_an_earlier_loss() -> None:
    for name in CHOSEN:
        for item in batch_gradients(build(name), pair_batch()).norms:
            if item.place.side == "decoder":
                assert float(item.norms.triu(1).abs().max()) == 0, (name, item.place.name)


# Linear networks: with ReLU and states that stay positive a recurrent layer is linear, so that its Jacobian is U.


def permutation(size: int) -> Tensor:
    """A cyclic permutation: orthogonal, not negative, and its eigenvalues are the roots of unity."""
    return torch.eye(size, dtype=torch.float64).roll(1, dims=0)


def make_linear(layer: Recurrence, matrix: Tensor) -> None:
    """Makes a rectified layer compute h(t) = U h(t−1) + W x + b with W x + b positive."""
    entering, recurrent, bias, other = layer.kernel.all_weights[0]
    with torch.no_grad():
        recurrent.copy_(matrix)
        entering.uniform_(-0.1, 0.1)
        bias.fill_(1.0)
        other.zero_()


def linear_language_model(matrix: Tensor) -> LanguageModel:
    torch.manual_seed(0)
    network = RecurrentLanguageConfig(cell="rnn-relu", layers=1, width=len(matrix), embedding=len(matrix))
    model = LanguageModel(LanguageModelConfig(network=network), vocabulary_size=11).double().eval()
    layer = model.network.layers[0]
    assert isinstance(layer, Recurrence)
    make_linear(layer, matrix)
    return model


def text_batch(rows: int = 3, size: int = 12) -> TextBatch:
    tokens = torch.randint(4, 11, (rows, size + 1), generator=torch.Generator().manual_seed(2))
    lengths = torch.full((rows,), size)
    return TextBatch(tokens[:, :-1], tokens[:, 1:], lengths, rows * size, rows * size)


def hidden_norms(gradients: BatchGradients, name: str) -> Tensor:
    (norms,) = (item.norms for item in gradients.norms if (item.place.name, item.state) == (name, "hidden"))
    return norms


@pytest.mark.parametrize("radius", [0.5, 0.9, 1.0, 1.1])
def test_a_linear_rnn_shrinks_gradients_as_its_eigenvalue_to_the_distance(radius: float) -> None:
    matrix = radius * permutation(7)
    model = linear_language_model(matrix)
    norms = hidden_norms(batch_gradients(model, text_batch()), "network.layers.0")
    size = norms.shape[1]
    for here in range(size):
        for there in range(here + 1):
            ratio = norms[:, here, there] / norms[:, here, here]
            expected = torch.full_like(ratio, radius ** (here - there))
            torch.testing.assert_close(ratio, expected, rtol=1e-5, atol=0)
    flow = gradient_flow(model, [text_batch()])
    (recurrence,) = flow["recurrences"]
    roots = radius * np.exp(2j * np.pi * np.arange(7) / 7)
    found = np.array([complex(*value) for value in recurrence["matrices"][0]["eigenvalues"]])
    assert sorted(np.round(found, 5), key=lambda z: (z.real, z.imag)) == pytest.approx(
        sorted(np.round(roots, 5), key=lambda z: (z.real, z.imag)), abs=2e-5
    )
    assert recurrence["matrices"][0]["spectral_radius"] == pytest.approx(radius, abs=1e-9)
    assert recurrence["bound"]["per_step"] == pytest.approx(radius, abs=1e-9), "an orthogonal matrix attains its bound"
    assert recurrence["jacobian"]["gains"]["total"] == pytest.approx([radius] * (size - 1), abs=1e-7)
    assert recurrence["jacobian"]["mean"]["spectral_radius"] == pytest.approx(radius, abs=1e-9)


def test_a_linear_rnn_with_several_eigenvalues_is_the_power_of_its_matrix() -> None:
    """A symmetric circulant matrix a + b (P + Pᵀ) has the eigenvalues a + 2 b cos(2πk/n)."""
    cycle = permutation(5)
    values, basis = torch.linalg.eigh(0.4 * torch.eye(5, dtype=torch.float64) + 0.25 * (cycle + cycle.T))
    known = 0.4 + 0.5 * torch.cos(2 * torch.pi * torch.arange(5, dtype=torch.float64) / 5)
    torch.testing.assert_close(values, known.sort().values)
    model, batch = linear_language_model(basis @ torch.diag(values) @ basis.T), text_batch()
    with torch.enable_grad(), record_states(model) as recording:
        losses = token_losses(model, batch).losses
    (recorded,) = (item for item in recording.layers if item.place.layer == 1)
    assert all(bool((step.after[0] > 0).all()) for step in recorded.steps)
    norms = hidden_norms(batch_gradients(model, batch), "network.layers.0")
    last = losses.shape[1] - 1
    (start,) = torch.autograd.grad(losses[:, last].sum(), [recorded.steps[last].after[0]])
    for distance in range(last + 1):
        closed = start @ basis @ torch.diag(values**distance) @ basis.T
        torch.testing.assert_close(norms[:, last, last - distance], closed.norm(dim=-1), rtol=1e-5, atol=0)


@pytest.mark.parametrize("reverse", [False, True])
def test_without_attention_gradients_go_through_all_steps_of_the_source(reverse: bool) -> None:
    radius, width = 0.8, 6
    sizes: dict[str, Any] = {"cell": "rnn-relu", "layers": 1, "width": width, "embedding": width, "dropout": 0.0}
    config = ModelConfig(
        encoder=RecurrentEncoderConfig(**sizes, bidirectional=False, reverse=reverse),
        decoder=RecurrentDecoderConfig(**sizes, bridge="copy"),
    )
    torch.manual_seed(1)
    model = Model(config, sizes=SIZES).double().eval()
    layers = [layer for layer in model.modules() if isinstance(layer, Recurrence)]
    assert len(layers) == 2
    for layer in layers:
        make_linear(layer, radius * permutation(width))
    gradients = batch_gradients(model, pair_batch())
    decoder = hidden_norms(gradients, "decoder.stack.layers.0")
    (item,) = (norms for norms in gradients.norms if norms.place.name == "encoder.layers.0.0")
    for row in range(SENTENCES):
        length = int(gradients.source_lengths[row])  # type: ignore[index]
        for here in range(int(TARGET_LENGTHS[row])):
            for there in range(length):
                read = there if not reverse or there == length - 1 else length - 2 - there
                steps = here + 1 + length - 1 - read
                expected = float(decoder[row, here, here]) * radius**steps
                assert float(item.norms[row, here, there]) == pytest.approx(expected, rel=1e-5)
    pairs = distance_pairs(item, gradients)
    assert pairs.distances.min() == 1
    assert pairs.distances.max() == int((gradients.lengths + gradients.source_lengths).max()) - 1  # type: ignore[operator]


def test_a_backward_layer_reads_from_the_end() -> None:
    radius, width = 0.7, 6
    sizes: dict[str, Any] = {"cell": "rnn-relu", "layers": 1, "embedding": width, "dropout": 0.0}
    config = ModelConfig(
        encoder=RecurrentEncoderConfig(**sizes, width=2 * width, bidirectional=True),
        decoder=RecurrentDecoderConfig(**sizes, width=width, bridge="backward"),
    )
    torch.manual_seed(1)
    model = Model(config, sizes=SIZES).double().eval()
    for layer in model.modules():
        if isinstance(layer, Recurrence):
            make_linear(layer, radius * permutation(width))
    gradients = batch_gradients(model, pair_batch())
    (item,) = (norms for norms in gradients.norms if norms.place.direction == "backward" and norms.state == "hidden")
    for row in range(SENTENCES):
        norms = item.norms[row, 0, : int(gradients.source_lengths[row])]  # type: ignore[index]
        torch.testing.assert_close(norms / norms[0], radius ** torch.arange(len(norms), dtype=torch.float64))


def test_the_bound_holds_for_an_rnn_and_is_stated_for_no_gated_cell() -> None:
    for name in CHOSEN:
        model = build(name)
        places = [(place, module) for place, module in state_places(model) if isinstance(module, Recurrence)]
        if not places:
            continue
        gradients = batch_gradients(model, pair_batch())
        lengths = {"encoder": gradients.source_lengths, "decoder": gradients.lengths}
        described = describe_recurrences(gradients.layers, lengths, rows=SENTENCES)  # type: ignore[arg-type]
        modules = {place.name: module for place, module in places}
        for item in described:
            if item["name"] not in modules:  # Cho's decoder
                continue
            module = modules[item["name"]]
            is_plain = module.cell in ("rnn", "rnn-relu") and not module.norms
            assert (step_bound(module) is not None) == is_plain
            if is_plain and item["jacobian"] is not None:
                assert max(item["jacobian"]["gains"]["total"]) <= item["bound"]["per_step"] + 1e-9


def test_a_run_that_diverged_has_no_spectrum() -> None:
    values = spectrum(torch.tensor([[1.0, float("nan")], [0.0, 1.0]]))
    assert np.isnan([values.radius, values.norm, *values.eigenvalues.real.tolist()]).all()
    assert factor_per_step(np.arange(1, 4), np.array([1.0, np.inf, np.nan]), [9, 9, 9]) is None
    assert factor_per_step(np.arange(4), np.array([7.0, 0.5, 0.25, 0.125]), [9, 9, 9, 9]) == pytest.approx(0.5)
