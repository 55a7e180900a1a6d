"""What a recurrent encoder leaves behind, and what it drops and disturbs in training."""

import pytest
import torch
from pydantic import ValidationError
from tests.laws.models import SIZES, SOURCE, loud, source
from torch import nn

from calque.layers.dropout import dropout
from calque.layers.recurrent import Recurrence
from calque.models.recurrent import RecurrentEncoder, RecurrentEncoderConfig, WordEmbedding
from calque.tensors import Padded

ROWS = 60
RANDOM = {
    "noise": {"noise": 0.1, "dropout": 0.0},
    "dropout": {"dropout": 0.5},
    "variational": {"dropout": 0.5, "variational": True},
    "weights": {"dropout": 0.0, "weight_dropout": 0.5},
}


def summing(*, recurring: float, **options) -> RecurrentEncoder:
    """In training; words are ones, and layers give yₜ = xₜ + recurring · yₜ₋₁, which shows every mask there is."""
    config = RecurrentEncoderConfig(cell="rnn-relu", bidirectional=False, width=6, embedding=6, **options)
    encoder = loud(RecurrentEncoder(config, vocabulary_size=SIZES.source)).train()
    nn.init.ones_(encoder.embedding.weight)
    with torch.no_grad():
        for (layer,) in encoder.layers:
            for weight, scale in zip(layer.kernel.parameters(), [1.0, recurring, 0.0, 0.0], strict=True):
                weight.copy_(scale * torch.eye(6) if weight.dim() == 2 else torch.zeros(6))
    return encoder


def long_sentences() -> Padded:
    return source(sentences=ROWS)._replace(lengths=torch.full((ROWS,), SOURCE))


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru", "gru-original"])
@torch.no_grad()
def test_the_last_states_are_what_each_direction_ends_with(cell: str) -> None:
    """→h at the last token and ←h at the first are both in the top layer's memory."""
    config = RecurrentEncoderConfig(cell=cell, layers=2, width=6, embedding=5)
    memory = loud(RecurrentEncoder(config, vocabulary_size=SIZES.source))(source())
    for row, size in enumerate(source().lengths.tolist()):
        ends = torch.cat([memory.values[row, size - 1, :3], memory.values[row, 0, 3:]])
        torch.testing.assert_close(memory.final[0][row, -1], ends, rtol=0, atol=1e-12)


@torch.no_grad()
def test_noise_on_what_each_layer_gives_is_as_strong_as_asked() -> None:
    """Layers hand on what they read, so the variances of three add up; their own states are not disturbed."""
    memory = summing(recurring=0.0, layers=3, dropout=0.0, noise=0.1)(long_sentences())
    assert (memory.values - 1).std().item() == pytest.approx(0.1 * 3**0.5, rel=0.06)
    assert (memory.final[0][:, 0] == 1).all()


@torch.no_grad()
def test_words_and_what_goes_between_layers_are_dropped_at_each_position_apart() -> None:
    """One survives two masks, kept with 1 in 2 and doubled by each."""
    values = summing(recurring=0.0, layers=2, dropout=0.5)(long_sentences()).values
    assert values.unique().tolist() == [0, 4]
    assert values.mean().item() == pytest.approx(1, abs=0.15)
    assert (values[:, 1:] != values[:, :-1]).double().mean().item() == pytest.approx(2 * 1 / 4 * 3 / 4, abs=0.05)


@torch.no_grad()
def test_variational_masks_are_one_a_sentence_on_what_enters_and_on_what_recurs() -> None:
    """yₜ = m xₜ + k yₜ₋₁ at all t, m and k of each layer being 0 or 2; the first two positions tell which."""
    encoder, layers = summing(recurring=1.0, layers=2, dropout=0.5, variational=True), []
    for connection in encoder.connections:
        connection.register_forward_hook(lambda _connection, read, _given: layers.append(read))
    encoder(long_sentences())
    for number, (inputs, outputs) in enumerate(layers, start=1):
        alive = outputs[:, 0] > 0  # [B,D]
        assert alive.double().mean().item() == pytest.approx(0.5**number, abs=0.1)
        assert (alive != alive[0]).any(), "sentences have masks of their own"
        assert not outputs.mT[~alive].any()
        x, y = inputs.mT[alive].unbind(-1), outputs.mT[alive].unbind(-1)
        entering = y[0] / x[0]
        recurring = (y[1] - entering * x[1]) / y[0]
        assert entering.unique().tolist() == [2]
        assert recurring.unique().tolist() == [0, 2]
        assert recurring.mean().item() == pytest.approx(1, abs=0.3)
        for t in range(2, SOURCE):
            assert torch.equal(y[t], entering * x[t] + recurring * y[t - 1])


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("cell", ["rnn", "rnn-relu", "lstm", "gru", "gru-original"])
@torch.no_grad()
def test_dropped_weights_are_one_mask_a_direction_for_all_sentences(
    cell: str, layer_norm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An encoder in training is one in evaluation that has only the weights which are kept."""
    config = RecurrentEncoderConfig(
        cell=cell, layers=2, width=6, embedding=5, dropout=0.0, weight_dropout=0.4, layer_norm=layer_norm
    )
    encoder = loud(RecurrentEncoder(config, vocabulary_size=SIZES.source)).train()
    masks: dict[Recurrence, torch.Tensor] = {}

    def draw(layer: Recurrence, *, dropout: float) -> torch.Tensor:
        assert dropout == 0.4 and layer not in masks
        masks[layer] = real(layer, dropout=dropout)
        return masks[layer]

    real = Recurrence.weight_mask
    monkeypatch.setattr(Recurrence, "weight_mask", draw)
    trained = encoder(source())
    assert len({tuple(mask.flatten().tolist()) for mask in masks.values()}) == 4, "two layers, each with two directions"
    for layer, mask in masks.items():
        layer.kernel.weight_hh_l0.mul_(mask)
    rested = encoder.eval()(source())
    for row, size in enumerate(source().lengths.tolist()):
        torch.testing.assert_close(trained.values[row, :size], rested.values[row, :size], rtol=0, atol=1e-12)
    torch.testing.assert_close(trained.final, rested.final, rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", RANDOM)
@torch.no_grad()
def test_what_is_random_in_training_rests_in_evaluation(options: str) -> None:
    def build(**options) -> RecurrentEncoder:
        config = RecurrentEncoderConfig(layers=2, width=6, embedding=5, **options)
        return loud(RecurrentEncoder(config, vocabulary_size=SIZES.source))

    encoder, still = build(**RANDOM[options]), build(dropout=0.0)(source())
    rested, trained = encoder(source()), encoder.train()(source())
    assert torch.equal(rested.values, still.values) and all(map(torch.equal, rested.final, still.final))
    assert not torch.allclose(trained.values, still.values)


# --- Embeddings ---


def test_all_occurrences_of_a_word_are_dropped_together() -> None:
    """As a mask on the rows of the whole matrix drops them, with its gradient; the rest is scaled up."""
    embedding = loud(WordEmbedding(50, width=6, dropout=0.0, type_dropout=0.375)).train()
    tokens = torch.randint(50, (8, 30))
    vectors = embedding(tokens)
    kept = torch.ones(50, dtype=torch.float64).index_fill(0, tokens[(vectors == 0).all(-1)], 0) / 0.625
    matrix = embedding.weight.detach().clone().requires_grad_()
    expected = (kept[:, None] * matrix)[tokens]
    torch.testing.assert_close(vectors, expected, rtol=1e-12, atol=0)
    (gradient,) = torch.autograd.grad(vectors.square().sum(), embedding.weight)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.square().sum(), matrix)[0], rtol=1e-12, atol=0)
    assert not torch.equal(embedding(tokens), vectors), "another call draws other words"


@torch.no_grad()
def test_the_share_of_words_asked_for_is_dropped_in_training_only() -> None:
    embedding = loud(WordEmbedding(20_000, width=1, dropout=0.0, type_dropout=0.1))
    tokens = torch.arange(20_000)[None]
    assert torch.equal(embedding(tokens)[0], embedding.weight)
    dropped = embedding.train()(tokens)[0]
    assert (dropped == 0).double().mean().item() == pytest.approx(0.1, abs=0.01)
    assert (dropped / embedding.weight).mean().item() == pytest.approx(1, abs=0.01)


@torch.no_grad()
def test_nothing_is_drawn_where_no_words_are_dropped() -> None:
    embedding, tokens = loud(WordEmbedding(5, width=3, dropout=0.5)).train(), torch.tensor([[1, 4, 1]])
    torch.manual_seed(7)
    vectors = embedding(tokens)
    torch.manual_seed(7)
    assert torch.equal(vectors, dropout(embedding.weight[tokens], 0.5))


def test_two_directions_need_an_even_width() -> None:
    with pytest.raises(ValidationError, match="width 7 must be even"):
        RecurrentEncoderConfig(width=7)
    assert RecurrentEncoderConfig(width=7, bidirectional=False).width == 7
