"""Output layers other than the full softmax, after a recurrent and a Transformer decoder."""

from calque.layers.adaptive import AdaptiveOutputConfig
from calque.layers.sampled import SampledOutputConfig
from calque.models.luong import LuongConfig
from calque.models.model import ModelConfig
from calque.models.transformer import TransformerDecoderConfig, TransformerEncoderConfig
from tests.laws.families import recurrent

SAMPLED = SampledOutputConfig(samples=4)
ADAPTIVE = AdaptiveOutputConfig(cutoffs=(3, 7), shrink=2.0)


def _luong(output):
    decoder = LuongConfig(layers=2, width=6, embedding=7)
    return ModelConfig(encoder=recurrent.encoder(), decoder=decoder, output=output)


def _transformer(output, *, tie="none"):
    encoder = TransformerEncoderConfig(layers=1, width=8, heads=2, feed_forward=10)
    decoder = TransformerDecoderConfig(layers=1, width=6, heads=3, feed_forward=10)
    return ModelConfig(tie=tie, encoder=encoder, decoder=decoder, output=output)


MODELS: dict[str, ModelConfig] = {
    "output-sampled-luong": _luong(SAMPLED),
    "output-sampled-transformer-tied": _transformer(SAMPLED, tie="target"),
    "output-adaptive-luong": _luong(ADAPTIVE),
    "output-adaptive-transformer": _transformer(ADAPTIVE),
}
