"""Any encoder with any decoder and any output layer: all have one width, so that all fit."""

from calque.layers.adaptive import AdaptiveOutputConfig
from calque.layers.attention import AdditiveAttentionConfig
from calque.layers.output import FullOutputConfig
from calque.layers.sampled import SampledOutputConfig
from calque.models.bahdanau import BahdanauConfig
from calque.models.cho import ChoConfig
from calque.models.convolutional import ConvolutionalDecoderConfig, ConvolutionalEncoderConfig
from calque.models.gnmt import GnmtConfig
from calque.models.luong import LuongConfig
from calque.models.mean import MeanEncoderConfig
from calque.models.model import ModelConfig
from calque.models.recurrent import RecurrentDecoderConfig, RecurrentEncoderConfig
from calque.models.transformer import TransformerDecoderConfig, TransformerEncoderConfig
from tests.laws.cover import name, pairwise

WIDTH = {"width": 6, "embedding": 6}
BLOCKS = {"layers": 2, "width": 6, "heads": 3, "feed_forward": 10}
ADDITIVE = AdditiveAttentionConfig(alignment=5)
OPTIONS = {
    "encoder": ["forward", "both ways", "convolutional", "mean", "transformer"],
    "decoder": ["recurrent", "cho", "bahdanau", "luong", "feeding", "gnmt", "convolutional", "transformer"],
    "cell": ["rnn", "rnn-relu", "lstm", "gru", "gru-original"],
    "connection": ["none", "residual", "dense", "highway"],
    "layer_norm": [False, True],
    "output": ["full", "sampled", "adaptive"],
}


def _encoder(kind, cell):
    match kind:
        case "convolutional":
            return ConvolutionalEncoderConfig(layers=2, kernel=3, **WIDTH)
        case "mean":
            return MeanEncoderConfig(**WIDTH)
        case "transformer":
            return TransformerEncoderConfig(**BLOCKS)
        case _:
            return RecurrentEncoderConfig(cell=cell, layers=2, bidirectional=kind == "both ways", **WIDTH)


def _decoder(kind, *, cell, connection, layer_norm):
    stack = {"cell": cell, "layers": 2, "bridge": "tanh", "connection": connection, "layer_norm": layer_norm, **WIDTH}
    match kind:
        case "recurrent":
            return RecurrentDecoderConfig(**stack)
        case "luong" | "feeding":
            return LuongConfig(**stack, input_feeding=kind == "feeding")
        case "cho":
            return ChoConfig(readout=8, **WIDTH)
        case "bahdanau":
            return BahdanauConfig(cell=cell, readout=8, bridge="tanh", attention=ADDITIVE, **WIDTH)
        case "gnmt":
            plain = "none" if connection == "dense" else connection
            return GnmtConfig(cell=cell, layers=3, bridge="tanh", connection=plain, attention=ADDITIVE, **WIDTH)
        case "convolutional":
            return ConvolutionalDecoderConfig(layers=2, kernel=3, **WIDTH)
        case _:
            return TransformerDecoderConfig(**BLOCKS)


def _build(encoder, decoder, cell, connection, layer_norm, output):
    outputs = {
        "full": FullOutputConfig(),
        "sampled": SampledOutputConfig(samples=7),
        "adaptive": AdaptiveOutputConfig(cutoffs=(4, 7), shrink=2.0),
    }
    return ModelConfig(
        encoder=_encoder(encoder, cell),
        decoder=_decoder(decoder, cell=cell, connection=connection, layer_norm=layer_norm),
        output=outputs[output],
    )


MODELS: dict[str, ModelConfig] = {f"mixed {name(each)}": _build(**each) for each in pairwise(OPTIONS)}
