"""Transformers, whole or on one side."""

from calque.models.luong import LuongConfig
from calque.models.model import ModelConfig
from calque.models.transformer import TransformerConfig
from tests.laws.families import recurrent


def _transformer(*, norm="pre", tie="none", heads=2, encoder_width=6):
    return ModelConfig(
        tie=tie,
        encoder=TransformerConfig(layers=2, width=encoder_width, heads=heads, feed_forward=10, norm=norm),
        decoder=TransformerConfig(layers=2, width=6, heads=heads, feed_forward=10, norm=norm),
    )


MODELS: dict[str, ModelConfig] = {
    "transformer-pre": _transformer(),
    "transformer-post": _transformer(norm="post"),
    "transformer-tied": _transformer(tie="target", heads=3, encoder_width=12),
    "transformer-encoder-lstm-decoder": ModelConfig(
        encoder=TransformerConfig(layers=1, width=8, heads=2, feed_forward=10),
        decoder=LuongConfig(layers=1, width=6, embedding=7, bridge="tanh"),
    ),
    "lstm-encoder-transformer-decoder": ModelConfig(
        encoder=recurrent.encoder(), decoder=TransformerConfig(layers=1, width=8, heads=2, feed_forward=10)
    ),
}
