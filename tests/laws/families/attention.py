"""Recurrent decoders with attention."""

from calque.layers.attention import AdditiveAttentionConfig, AttentionConfig
from calque.models.bahdanau import BahdanauConfig
from calque.models.gnmt import GnmtConfig
from calque.models.luong import LuongConfig
from calque.models.model import ModelConfig
from tests.laws.cover import name, pairwise
from tests.laws.families.recurrent import encoder


def narrow(kind=AttentionConfig, **options):
    """As narrow as possible: settings that a score or reach does not use must not be given."""
    score, reach = options.get("score", kind().score), options.get("reach", "global")
    sizes = {"additive": {"alignment": 5}, "location": {"longest": 4}}.get(score, {})
    return kind(**sizes, **({} if reach == "global" else {"window": 2}), **options)


def _luong(cell="lstm", *, feeding=True, layers=2, bidirectional=True, stack=None, copies=False, **options):
    """`stack` are options of the recurrent layers, `options` of the attention."""
    decoder = LuongConfig(
        cell=cell,
        layers=layers,
        width=6,
        embedding=7,
        input_feeding=feeding,
        copies=copies,
        attention=narrow(**options),
        **(stack or {}),
    )
    return ModelConfig(encoder=encoder(cell, bidirectional=bidirectional, layers=layers), decoder=decoder)


def _deep():
    """As deep as the deepest system of its time (Wu 2016), without its attention and its bidirectional layer."""
    options = {"layers": 8, "connection": "residual"}
    decoder = LuongConfig(width=6, embedding=7, **options)
    return ModelConfig(encoder=encoder(bidirectional=False, **options), decoder=decoder)


def _bahdanau(cell="gru-original", *, copies=False, width=9, **options):
    attention = narrow(AdditiveAttentionConfig, **options)
    decoder = BahdanauConfig(cell=cell, width=width, embedding=7, attention=attention, readout=8, copies=copies)
    return ModelConfig(encoder=encoder(cell, layers=1), decoder=decoder)


def _gnmt(cell="lstm", *, layers=3, connection="residual", copies=False, **options):
    attention = narrow(AdditiveAttentionConfig, **options)
    decoder = GnmtConfig(
        cell=cell, layers=layers, width=6, embedding=7, connection=connection, attention=attention, copies=copies
    )
    return ModelConfig(encoder=encoder(cell, layers=layers, bidirectional="first"), decoder=decoder)


def _build(family, *, copies, **options):
    match family:
        case "luong":
            return _luong(feeding=False, copies=copies, **options)
        case "feeding":
            return _luong(copies=copies, stack={"connection": "dense"}, **options)
        case "bahdanau":
            return _bahdanau(copies=copies, width=6, **options)
        case "gnmt":
            return _gnmt(copies=copies, **options)


OPTIONS = {
    "family": ["luong", "feeding", "bahdanau", "gnmt"],
    "score": ["dot", "scaled_dot", "general", "concat", "additive", "location"],
    "reach": ["global", "local-m", "local-p"],
    "choice": ["soft", "hard"],
    "gated": [False, True],
    "coverage": [False, True],
    "copies": [False, True],
}
CHOSEN = pairwise(OPTIONS)
MODELS: dict[str, ModelConfig] = {
    "luong-dot": _luong(score="dot", feeding=False),
    "luong-dot-feeding": _luong(score="dot"),
    "luong-general": _luong(feeding=False, bidirectional=False),
    "luong-general-feeding": _luong(),
    "luong-concat": _luong("gru", score="concat", feeding=False, layers=1),
    "luong-concat-feeding": _luong("gru", score="concat", layers=1),
    "luong-rnn-feeding": _luong("rnn"),
    "luong-gru-original-feeding": _luong("gru-original"),
    "luong-8-residual-feeding": _deep(),
    "bahdanau": _bahdanau(),
    "bahdanau-lstm": _bahdanau("lstm"),
    "gnmt": _gnmt(),
    "gnmt-one": _gnmt(layers=1),
} | {name(choice): _build(**choice) for choice in CHOSEN}
