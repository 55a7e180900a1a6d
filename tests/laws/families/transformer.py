"""Transformers, whole or on one side, and their variants."""

from calque.models.luong import LuongConfig
from calque.models.model import ModelConfig
from calque.models.transformer import TransformerDecoderConfig, TransformerEncoderConfig
from tests.laws.families import recurrent


def _transformer(*, norm="pre", tie="none", heads=2, encoder_width=6, attention_layer=None, copies=False):
    return ModelConfig(
        tie=tie,
        encoder=TransformerEncoderConfig(layers=2, width=encoder_width, heads=heads, feed_forward=10, norm=norm),
        decoder=TransformerDecoderConfig(
            layers=2,
            width=6,
            heads=heads,
            feed_forward=10,
            norm=norm,
            attention_layer=attention_layer,
            copies=copies,
        ),
    )


def position_options(positions):
    """So few positions that the sentences of the list exceed them: distances are clipped, the last vector shared."""
    short = {"learned": {"maximum_positions": 4}, "relative": {"relative_reach": 2}}
    return {"positions": positions, **short.get(positions, {})}


def _variant(
    positions,
    activation="relu",
    *,
    normalisation="layer",
    norm="pre",
    key_value_heads=None,
    mixer="attention",
    copies=False,
    heads=4,
    width=8,
    encoder_width=8,
):
    """Two layers per side."""
    shared = {
        "layers": 2,
        "heads": heads,
        "feed_forward": 10,
        **position_options(positions),
        "activation": activation,
        "normalisation": normalisation,
        "norm": norm,
        "key_value_heads": key_value_heads,
    }
    return ModelConfig(
        encoder=TransformerEncoderConfig(width=encoder_width, **shared),
        decoder=TransformerDecoderConfig(width=width, mixer=mixer, copies=copies, **shared),
    )


# Every pair of option values occurs: checked by tests/unit/models/test_transformer.py.
VARIANTS: dict[str, ModelConfig] = {
    "transformer-grouped": _variant("sinusoidal", normalisation="rms", norm="post", key_value_heads=2),
    "transformer-learned": _variant("learned", "gelu", normalisation="rms", norm="post", key_value_heads=1),
    "transformer-rotary": _variant("rotary", "gelu", normalisation="rms", key_value_heads=2, encoder_width=16),
    "transformer-rotary-multi-query-copy": _variant("rotary", norm="post", key_value_heads=1, copies=True),
    "transformer-rotary-swiglu-copy": _variant(
        "rotary", "swiglu", normalisation="rms", norm="post", copies=True, heads=3, width=12, encoder_width=6
    ),
    "transformer-relative": _variant(
        "relative", "swiglu", normalisation="rms", copies=True, heads=3, width=6, encoder_width=12
    ),
    "transformer-relative-grouped": _variant("relative", "gelu", norm="post", key_value_heads=2, width=12),
    "transformer-relative-multi-query-copy": _variant("relative", norm="post", key_value_heads=1, copies=True),
    "transformer-ssru": _variant("learned", normalisation="rms", mixer="ssru", heads=3, width=6, encoder_width=12),
    "transformer-ssru-copy": _variant("learned", "swiglu", norm="post", key_value_heads=2, mixer="ssru", copies=True),
    "transformer-ssru-multi-query": _variant("sinusoidal", "gelu", key_value_heads=1, mixer="ssru"),
    "transformer-average": _variant(
        "sinusoidal", "gelu", norm="post", mixer="average", copies=True, heads=2, width=6, encoder_width=10
    ),
    "transformer-average-grouped": _variant(
        "learned", normalisation="rms", norm="post", key_value_heads=2, mixer="average"
    ),
    "transformer-average-multi-query": _variant(
        "sinusoidal", "swiglu", normalisation="rms", key_value_heads=1, mixer="average", width=12
    ),
}
MODELS: dict[str, ModelConfig] = VARIANTS | {
    "transformer-pre": _transformer(),
    "transformer-post": _transformer(norm="post"),
    "transformer-first-attention": _transformer(attention_layer=1),
    "transformer-first-attention-copy": _transformer(attention_layer=1, copies=True),
    "transformer-one-embedding": _transformer(tie="embeddings"),
    "transformer-tied": _transformer(tie="target", heads=3, encoder_width=12),
    "transformer-encoder-lstm-decoder": ModelConfig(
        encoder=TransformerEncoderConfig(layers=1, width=8, heads=2, feed_forward=10),
        decoder=LuongConfig(layers=1, width=6, embedding=7, bridge="tanh"),
    ),
    "lstm-encoder-transformer-decoder": ModelConfig(
        encoder=recurrent.encoder(), decoder=TransformerDecoderConfig(layers=1, width=8, heads=2, feed_forward=10)
    ),
}
