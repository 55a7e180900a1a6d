"""Dropout inside ConvS2S and attentional decoders: in training only, where documented, at the configured rate."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from tests.laws.models import SIZES, loud, source, target
from torch import Tensor, nn

from calque.layers.attention import AdditiveAttentionConfig
from calque.models.bahdanau import BahdanauConfig
from calque.models.convolutional import ConvolutionalDecoderConfig, ConvolutionalEncoderConfig
from calque.models.gnmt import GnmtConfig
from calque.models.model import Model, ModelConfig
from calque.models.recurrent import RecurrentEncoderConfig

ROWS, DROPOUT = 40, 0.25
CONVOLVED = {"layers": 1, "width": 8, "embedding": 6}
DROPPED = {"width": 6, "embedding": 5, "attention": AdditiveAttentionConfig(alignment=3), "dropout": DROPOUT}
READ = RecurrentEncoderConfig(layers=1, width=6, embedding=5, dropout=0)


class DropoutSite(NamedTuple):
    """A dropout, and the layer that reads its output; None for dropout on the decoder's output."""

    model: ModelConfig
    reader: Callable[[Model], nn.Module] | None = None


SITES = {
    "convolutional encoder": DropoutSite(
        ModelConfig(
            encoder=ConvolutionalEncoderConfig(dropout=DROPOUT, **CONVOLVED),
            decoder=ConvolutionalDecoderConfig(dropout=0, **CONVOLVED),
        ),
        lambda model: model.encoder.convolutions[0],
    ),
    "convolutional decoder": DropoutSite(
        ModelConfig(
            encoder=ConvolutionalEncoderConfig(dropout=0, **CONVOLVED),
            decoder=ConvolutionalDecoderConfig(dropout=DROPOUT, **CONVOLVED),
        ),
        lambda model: model.decoder.layers[0].convolution,
    ),
    "gnmt between layers": DropoutSite(
        ModelConfig(encoder=READ, decoder=GnmtConfig(layers=2, bridge="zero", **DROPPED)),
        lambda model: model.decoder.layers[0],
    ),
    "gnmt output": DropoutSite(ModelConfig(encoder=READ, decoder=GnmtConfig(layers=1, **DROPPED))),
    "bahdanau readout": DropoutSite(ModelConfig(encoder=READ, decoder=BahdanauConfig(readout=7, **DROPPED))),
}


@pytest.mark.parametrize("site", SITES)
@torch.no_grad()
def test_the_dropout_rate_is_set_to_zero_and_the_rest_scaled_up(site: str) -> None:
    """Compared with evaluation mode; embeddings are not dropped, so that this is the first dropout."""
    config, reader = SITES[site]
    model = loud(Model(config, sizes=SIZES))
    model.encoder.embedding.dropout = model.decoder.embedding.dropout = 0.0
    inputs: list[Tensor] = []
    if reader is not None:
        reader(model).register_forward_pre_hook(lambda _layer, read: inputs.append(read[0]))

    def read() -> Tensor:
        hidden = model(source(sentences=ROWS), target(rows=ROWS)).hidden
        return hidden if reader is None else inputs.pop()

    whole = read()
    assert torch.equal(read(), whole)
    model.train()
    dropped = read()
    width = whole.shape[-1] if reader is None else reader(model).width  # followed by the attention context
    assert torch.equal(dropped[..., width:], whole[..., width:])
    whole, dropped = (values[..., :width][whole[..., :width] != 0] for values in (whole, dropped))  # not padding
    zero = dropped == 0
    assert zero.double().mean().item() == pytest.approx(DROPOUT, abs=0.05)
    torch.testing.assert_close(dropped[~zero], whole[~zero] / (1 - DROPOUT), rtol=1e-12, atol=0)
