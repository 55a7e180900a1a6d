"""What of a model's options does something in it, group by group; what is idle is left out."""

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
    """Some decoders have one layer, whatever is said."""
    return "one" if getattr(side, "layers", 1) == 1 else "more"


def attends(model: ModelConfig) -> bool:
    return model.decoder.kind not in ("recurrent", "cho")


def connection_is_read(model: ModelConfig) -> bool:
    """Whether what connects an encoder's layers matters; none, where another would.

    A decoder that does not attend sees their last states alone, above which only what the next layer reads counts.
    """
    encoder = model.encoder
    assert isinstance(encoder, RecurrentEncoderConfig)
    return encoder.layers > (1 if attends(model) or encoder.connection == "dense" else 2)


def in_encoder(model: ModelConfig) -> Choice:
    """What is read of a recurrent encoder."""
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
    """What is read of encoder, decoder and output layer."""
    encoder, decoder = model.encoder, model.decoder
    found = {"encoder": encoder.kind, "decoder": decoder_name(model), "output": model.output.kind}
    if isinstance(encoder, RecurrentEncoderConfig):
        found["encoder"] = ("forward", "both ways")[encoder.directions(encoder.layers - 1) - 1]
    own = [name for name in ("cell", "connection", "layer_norm", "bridge") if name in type(decoder).model_fields]
    found["layers"] = depth(decoder)
    return found | {name: getattr(decoder, name) for name in own if found["layers"] != "one" or name != "connection"}


def in_attention(model: ModelConfig) -> Choice:
    """What is read of the attention of a recurrent decoder."""
    decoder = model.decoder
    if not isinstance(decoder, BahdanauConfig | LuongConfig | GnmtConfig):
        return {}
    own = {name: getattr(decoder.attention, name) for name in ATTENTION}
    return {"decoder": decoder_name(model), "copies": decoder.copies, **own}


def across(model: ModelConfig) -> Choice:
    """What is read of all parts and of attention, but for how deep they are."""
    own = {
        name: getattr(model.decoder, name) for name in ("mixer", "positions", "copies") if hasattr(model.decoder, name)
    }
    found = between_parts(model) | in_attention(model) | own | {"tie": model.tie}
    return {key: value for key, value in found.items() if key != "layers"}
