"""Any encoder with any decoder and any output layer; all have the same width, so that all are compatible."""

from calque.layers.adaptive import AdaptiveOutputConfig
from calque.layers.attention import AdditiveAttentionConfig
from calque.layers.output import FullOutputConfig
from calque.layers.sampled import SampledOutputConfig
from calque.models.bag_of_words import BagOfWordsEncoderConfig
from calque.models.bahdanau import BahdanauConfig
from calque.models.cho import ChoConfig
from calque.models.convolutional import ConvolutionalDecoderConfig, ConvolutionalEncoderConfig
from calque.models.gnmt import GnmtConfig
from calque.models.luong import LuongConfig
from calque.models.model import ModelConfig
from calque.models.recurrent import RecurrentDecoderConfig, RecurrentEncoderConfig
from calque.models.transformer import TransformerDecoderConfig, TransformerEncoderConfig
from tests.laws.cover import name, pairwise
from tests.laws.families.attention import narrow
from tests.laws.families.transformer import position_options
from tests.laws.readings import ATTENTION

WIDTH = {"width": 6, "embedding": 6}
BLOCKS = {"layers": 2, "width": 6, "heads": 3, "feed_forward": 10}
CELLS = ["rnn", "rnn-relu", "lstm", "gru", "gru-original"]
OPTIONS = {
    "encoder": ["forward", "both ways", "convolutional", "mean", "transformer"],
    "decoder": ["recurrent", "cho", "bahdanau", "luong", "feeding", "gnmt", "convolutional", "transformer"],
    "cell": CELLS,
    "connection": ["none", "residual", "dense", "highway"],
    "layer_norm": [False, True],
    "bridge": ["copy", "tanh", "backward", "zero"],
    "output": ["full", "sampled", "adaptive"],
}
STACK = {"cell", "connection", "layer_norm", "bridge"}
OWN = {  # the settings of a decoder besides its encoder and output layer
    "recurrent": STACK,
    "luong": STACK,
    "feeding": STACK,
    "gnmt": STACK - {"layer_norm"},
    "bahdanau": {"cell", "bridge"},
}


def _read(choice):
    own = OWN.get(choice["decoder"], set())
    used = {key: value for key, value in choice.items() if key in {"encoder", "decoder", "output", *own}}
    return None if _impossible(**used) else used


def _impossible(encoder, decoder, bridge=None, connection=None, **_):
    """Whether the bridge lacks its states, leaves states unused, or the layers cannot be connected this way."""
    return (
        (bridge == "copy" and decoder != "bahdanau" and encoder not in ("forward", "both ways"))
        or (bridge == "backward" and encoder != "both ways")
        or (bridge in ("backward", "zero") and decoder == "recurrent")
        or (connection == "dense" and decoder == "gnmt")
    )


def _encoder(kind, *, cell="lstm", **options):
    """Its cell is the one after the decoder's in the list, so that (h,) states meet (h, c) states."""
    match kind:
        case "convolutional":
            return ConvolutionalEncoderConfig(layers=2, kernel=3, **WIDTH)
        case "mean":
            return BagOfWordsEncoderConfig(**WIDTH)
        case "transformer":
            return TransformerEncoderConfig(**BLOCKS)
        case _:
            next_cell = CELLS[(CELLS.index(cell) + 1) % len(CELLS)]
            is_bidirectional = kind == "both ways"
            return RecurrentEncoderConfig(cell=next_cell, layers=3, bidirectional=is_bidirectional, **options, **WIDTH)


def _decoder(kind, *, readout, looks, **own):
    """`looks` are options of the attention; a decoder's config rejects options that it does not have."""
    match kind:
        case "luong" | "feeding":
            own |= {"attention": narrow(**looks), "input_feeding": kind == "feeding"}
        case "bahdanau" | "gnmt":
            own |= {"attention": narrow(AdditiveAttentionConfig, **looks)}
        case _ if looks:
            own |= {"attention": looks}
    match kind:
        case "recurrent":
            return RecurrentDecoderConfig(layers=2, **own, **WIDTH)
        case "luong" | "feeding":
            return LuongConfig(layers=2, **own, **WIDTH)
        case "cho":
            return ChoConfig(readout=readout, **own, **WIDTH)
        case "bahdanau":
            return BahdanauConfig(readout=readout, **own, **WIDTH)
        case "gnmt":
            return GnmtConfig(layers=3, **own, **WIDTH)
        case "convolutional":
            return ConvolutionalDecoderConfig(layers=2, kernel=3, **own, **WIDTH)
        case _:
            return TransformerDecoderConfig(**position_options(own.pop("positions", "sinusoidal")), **own, **BLOCKS)


def build(*, encoder, decoder, output, tie="none", **options):
    """Recurrent layers have the same connections and normalisation on both sides; tied matrices have equal widths."""
    outputs = {
        "full": FullOutputConfig(),
        "sampled": SampledOutputConfig(samples=7),
        "adaptive": AdaptiveOutputConfig(cutoffs=(4, 7), shrink=2.0),
    }
    below = {key: options[key] for key in ("cell", "connection", "layer_norm") if key in options}
    looks = {key: options.pop(key) for key in ATTENTION if key in options}
    readout = WIDTH["width"] if tie in ("target", "all") else 8
    return ModelConfig(
        tie=tie,
        encoder=_encoder(encoder, **below),
        decoder=_decoder(decoder, readout=readout, looks=looks, **options),
        output=outputs[output],
    )


CHOSEN = pairwise(OPTIONS, read=_read)
MODELS: dict[str, ModelConfig] = {f"mixed {name(choice)}": build(**choice) for choice in CHOSEN}
