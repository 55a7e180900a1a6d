"""The options that have an effect in a model, group by group; options without effect are left out."""

from typing import Any

from calque.models.bahdanau import BahdanauConfig
from calque.models.gnmt import GnmtConfig
from calque.models.luong import LuongConfig
from calque.models.model import ModelConfig
from calque.models.recurrent import RecurrentEncoderConfig
from tests.laws.cover import Choice

ATTENTION = ("score", "reach", "choice", "gated", "coverage")


def decoder_name(model: ModelConfig) -> str:
    return "feeding" if getattr(model.decoder, "input_feeding", False) else model.decoder.kind


def depth(side: Any) -> str:
    """Some decoders always have one layer."""
    return "one" if getattr(side, "layers", 1) == 1 else "more"


def attends(model: ModelConfig) -> bool:
    return model.decoder.kind not in ("recurrent", "cho")


def connection_is_read(model: ModelConfig) -> bool:
    """Whether the connection between an encoder's layers has an effect; for "none", whether another one would.

    A decoder without attention sees only the final states, on which the topmost connection has no effect.
    """
    encoder = model.encoder
    assert isinstance(encoder, RecurrentEncoderConfig)
    return encoder.layers > (1 if attends(model) or encoder.connection == "dense" else 2)


def in_encoder(model: ModelConfig) -> Choice:
    """The options of a recurrent encoder."""
    encoder = model.encoder
    if not isinstance(encoder, RecurrentEncoderConfig):
        return {}
    return {
        "cell": encoder.cell,
        "layers": depth(encoder),
        "bidirectional": bool(encoder.bidirectional) if encoder.layers == 1 else encoder.bidirectional,
        "layer_norm": encoder.layer_norm,
        "reverse": encoder.reverse,
        "attended": attends(model),
        **({"connection": encoder.connection} if connection_is_read(model) else {}),
    }


def between_parts(model: ModelConfig) -> Choice:
    """The options of encoder, decoder and output layer."""
    encoder, decoder = model.encoder, model.decoder
    settings = {"encoder": encoder.kind, "decoder": decoder_name(model), "output": model.output.kind}
    if isinstance(encoder, RecurrentEncoderConfig):
        settings["encoder"] = ("forward", "both ways")[encoder.directions(encoder.layers - 1) - 1]
    names = [name for name in ("cell", "connection", "layer_norm", "bridge") if name in type(decoder).model_fields]
    settings["layers"] = depth(decoder)
    return settings | {
        name: getattr(decoder, name) for name in names if settings["layers"] != "one" or name != "connection"
    }


def in_attention(model: ModelConfig) -> Choice:
    """The options of the attention of a recurrent decoder."""
    decoder = model.decoder
    if not isinstance(decoder, BahdanauConfig | LuongConfig | GnmtConfig):
        return {}
    options = {name: getattr(decoder.attention, name) for name in ATTENTION}
    return {"decoder": decoder_name(model), "copies": decoder.copies, **options}


def across(model: ModelConfig) -> Choice:
    """The options of all parts and of attention, except their depth."""
    options = {
        name: getattr(model.decoder, name) for name in ("mixer", "positions", "copies") if hasattr(model.decoder, name)
    }
    tie = "all" if model.tie == "auto" else model.tie  # the laws' vocabularies are joint where a model ties
    settings = between_parts(model) | in_attention(model) | options | {"tie": tie}
    return {key: value for key, value in settings.items() if key != "layers"}
