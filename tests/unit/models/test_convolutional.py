"""Aspects of ConvS2S and the bag-of-words encoder that no law covers: gradients, late positions, invalid settings."""

import pytest
import torch
from pydantic import ValidationError
from tests.laws.models import SIZES, SOURCE, loud, source, target

from calque.errors import ConfigError
from calque.models import convolutional
from calque.models.bag_of_words import BagOfWordsEncoder, BagOfWordsEncoderConfig
from calque.models.convolutional import (
    ConvolutionalDecoderConfig,
    ConvolutionalEncoder,
    ConvolutionalEncoderConfig,
)
from calque.models.model import Model, ModelConfig
from calque.models.recurrent import RecurrentEncoderConfig
from calque.models.transformer import TransformerEncoderConfig


def model(*, layers: int = 3) -> Model:
    encoder = ConvolutionalEncoderConfig(layers=2, width=8, embedding=6, dropout=0)
    decoder = ConvolutionalDecoderConfig(layers=layers, width=5, embedding=6, dropout=0)
    return loud(Model(ModelConfig(encoder=encoder, decoder=decoder), sizes=SIZES))


def gradients(model: Model) -> tuple[torch.Tensor, dict[str, torch.Tensor | None]]:
    """The model's hidden states, and the encoder's gradients."""
    model.zero_grad()
    hidden = model(source(), target()).hidden
    hidden.square().sum().backward()
    return hidden.detach(), {name: parameter.grad for name, parameter in model.encoder.named_parameters()}


@pytest.mark.parametrize("layers", [1, 3, 4])
def test_the_encoders_gradient_is_divided_by_the_number_of_attentions_except_in_e(
    layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = model(layers=layers)
    _, true = gradients(network.eval())
    outputs, scaled = gradients(network.train())
    monkeypatch.setattr(convolutional, "scale_gradient", lambda values, *, scale: values)  # noqa: ARG005
    unscaled_outputs, whole = gradients(network)
    monkeypatch.setattr(convolutional, "scale_gradient", lambda values, *, scale: values.detach())  # noqa: ARG005
    _, without_z = gradients(network)
    assert torch.equal(outputs, unscaled_outputs)
    for name, gradient in whole.items():
        bypassing = without_z[name]  # the gradient that does not pass through z, only through e
        assert (bypassing is not None) == name.startswith("embedding.")
        bypassing = torch.zeros_like(gradient) if bypassing is None else bypassing
        assert torch.equal(true[name], gradient), "only training scales it"
        torch.testing.assert_close(scaled[name], bypassing + (gradient - bypassing) / layers, rtol=1e-9, atol=1e-9)


@torch.no_grad()
def test_positions_beyond_the_table_share_its_last_vector() -> None:
    config = ConvolutionalEncoderConfig(layers=1, width=8, embedding=6, kernel=1, maximum_positions=3, dropout=0)
    encoder = loud(ConvolutionalEncoder(config, vocabulary_size=SIZES.source))
    same = source()._replace(values=torch.full_like(source().values, 5))
    values = encoder(same).values[0]
    assert not torch.allclose(values[1], values[2])
    torch.testing.assert_close(values[2:], values[2].expand_as(values[2:]))


@torch.no_grad()
def test_the_final_state_of_the_convolutional_encoder_is_the_mean_without_padding() -> None:
    encoder = model().encoder
    memory = encoder(source())
    for row, size in enumerate(source().lengths.tolist()):
        torch.testing.assert_close(memory.final[0][row, 0], memory.values[row, :size].mean(0), rtol=0, atol=1e-12)


@torch.no_grad()
def test_the_bag_of_words_encoder_ignores_order() -> None:
    encoder = loud(BagOfWordsEncoder(BagOfWordsEncoderConfig(width=8, embedding=5), vocabulary_size=SIZES.source))
    whole = source(sentences=1)._replace(lengths=torch.tensor([SOURCE]))
    order = torch.randperm(SOURCE, generator=torch.Generator().manual_seed(1))
    memory, permuted = encoder(whole), encoder(whole._replace(values=whole.values[:, order]))
    torch.testing.assert_close(memory.final[0], permuted.final[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(memory.values[:, order], permuted.values, rtol=0, atol=1e-12)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_weight_names_are_stable(side: str) -> None:
    names = {name.split(".")[-1] for name, _ in getattr(model(), side).named_parameters()}
    assert names == {"weight", "positions", "direction", "magnitude", "bias"}


def test_an_even_encoder_kernel_is_rejected() -> None:
    with pytest.raises(ValidationError, match="kernel 4 must be odd"):
        ConvolutionalEncoderConfig(kernel=4)
    assert ConvolutionalDecoderConfig(kernel=4).kernel == 4


INCOMPATIBLE = {
    "embeddings of different width": (
        ConvolutionalEncoderConfig(embedding=6),
        "output has 6, the source embeddings have 6 and its own embeddings 8",
    ),
    "a memory wider than the embeddings": (
        RecurrentEncoderConfig(width=6, embedding=8),
        "output has 6, the source embeddings have 8",
    ),
    "a Transformer of another width": (
        TransformerEncoderConfig(width=6, heads=2),
        "and encoder.width too unless the encoder is convolutional",
    ),
}


@pytest.mark.parametrize("name", INCOMPATIBLE)
def test_a_memory_of_the_wrong_width_is_rejected_with_a_remedy(name: str) -> None:
    encoder, message = INCOMPATIBLE[name]
    with pytest.raises(ConfigError, match=f"model.decoder: .*{message}"):
        Model(ModelConfig(encoder=encoder, decoder=ConvolutionalDecoderConfig(embedding=8)), sizes=SIZES)
