"""The list of models is a cover: every two options that can be read in one model are read together in one of the list.

Counted over the models as built: what is idle in a model counts for nothing there. Three groups are counted: the
options of recurrent encoders, those of encoder, decoder and output layer to each other, and those of attention.
Transformers have a count of their own in tests/unit/models/test_transformer.py.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, get_args

import pytest
import torch

from calque.layers.attention import AttentionConfig
from calque.layers.connections import ConnectionName
from calque.layers.recurrent import CellName
from calque.layers.scores import ScoreName
from calque.layers.stack import StackConfig
from calque.models.bahdanau import BahdanauConfig
from calque.models.bridge import BridgeName
from calque.models.cho import ChoConfig
from calque.models.convolutional import ConvolutionalDecoderConfig
from calque.models.gnmt import GnmtConfig
from calque.models.luong import LuongConfig
from calque.models.model import DecoderConfig, EncoderConfig, Model, ModelConfig, OutputConfig
from calque.models.recurrent import RecurrentDecoderConfig, RecurrentEncoderConfig
from calque.models.transformer import TransformerDecoderConfig
from tests.laws.cover import Choice, pairs, pairwise
from tests.laws.models import MODELS, SIZES, loud, source, target

SWITCH = (False, True)
CELLS, CONNECTIONS = get_args(CellName), get_args(ConnectionName)
DECODERS = {
    "recurrent": RecurrentDecoderConfig,
    "cho": ChoConfig,
    "bahdanau": BahdanauConfig,
    "luong": LuongConfig,
    "feeding": LuongConfig,
    "gnmt": GnmtConfig,
    "convolutional": ConvolutionalDecoderConfig,
    "transformer": TransformerDecoderConfig,
}


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
        found["encoder"] = ("one way", "both ways")[encoder.directions(encoder.layers - 1) - 1]
    own = [name for name in ("cell", "connection", "layer_norm", "bridge") if name in type(decoder).model_fields]
    found["layers"] = depth(decoder)
    return found | {name: getattr(decoder, name) for name in own if found["layers"] != "one" or name != "connection"}


def in_attention(model: ModelConfig) -> Choice:
    """What is read of the attention of a recurrent decoder."""
    decoder = model.decoder
    if not isinstance(decoder, BahdanauConfig | LuongConfig | GnmtConfig):
        return {}
    own = {name: getattr(decoder.attention, name) for name in ("score", "reach", "choice", "gated", "coverage")}
    return {"decoder": decoder_name(model), "copies": decoder.copies, **own}


def kinds(union: Any) -> list[str]:
    """Of the parts a config may name; what has no source is tried in tests/laws/test_language.py."""
    names = [each.model_fields["kind"].default for each in get_args(get_args(union)[0])]
    return [name for name in names if name != "none"]


def never_in_encoder(one: Choice) -> bool:
    """A single layer is connected to nothing, and is its first."""
    return one.get("layers") == "one" and ("connection" in one or one.get("bidirectional") == "first")


def never_between_parts(one: Choice) -> bool:
    """Options that a decoder does not have, and states that an encoder does not have or that no one would read."""
    decoder, bridge, layers = one.get("decoder"), one.get("bridge"), one.get("layers")
    has = {*DECODERS[decoder].model_fields, "encoder", "decoder", "layers", "output"} if decoder else set(one)
    return (
        not has >= set(one)
        or (layers == "more" and decoder in ("cho", "bahdanau"))
        or (layers == "one" and "connection" in one)
        or (decoder == "gnmt" and one.get("connection") == "dense")
        or (bridge == "backward" and one.get("encoder", "both ways") != "both ways")
        or (bridge in ("backward", "zero") and decoder == "recurrent")
    )


class Group(NamedTuple):
    """Options that are counted against each other."""

    read: Callable[[ModelConfig], Choice]  # what does something in a model
    values: dict[str, Iterable[Any]]
    never: Callable[[Choice], bool]  # whether two settings cannot meet, or must not


GROUPS = {
    "encoder": Group(
        in_encoder,
        {
            "cell": CELLS,
            "connection": CONNECTIONS,
            "layers": ("one", "more"),
            "bidirectional": (False, "first", True),
            "layer_norm": SWITCH,
            "reverse": SWITCH,
            "attended": SWITCH,
        },
        never_in_encoder,
    ),
    "parts": Group(
        between_parts,
        {
            "encoder": ["one way", "both ways", *(each for each in kinds(EncoderConfig) if each != "recurrent")],
            "decoder": DECODERS,
            "cell": CELLS,
            "connection": CONNECTIONS,
            "layers": ("one", "more"),
            "layer_norm": SWITCH,
            "bridge": get_args(BridgeName),
            "output": kinds(OutputConfig),
        },
        never_between_parts,
    ),
    "attention": Group(
        in_attention,
        {
            "decoder": ("luong", "feeding", "bahdanau", "gnmt"),
            "score": get_args(ScoreName),
            "reach": get_args(AttentionConfig.model_fields["reach"].annotation),
            "choice": get_args(AttentionConfig.model_fields["choice"].annotation),
            "gated": SWITCH,
            "coverage": SWITCH,
            "copies": SWITCH,
        },
        lambda _: False,
    ),
}


def test_a_cover_counts_what_is_read_and_leaves_out_what_cannot_be() -> None:
    def read(choice: Choice) -> Choice | None:
        if choice["a"] == 0:
            return {key: value for key, value in choice.items() if key != "b"}
        return None if choice["b"] == choice["c"] == 1 else choice

    chosen = pairwise({"a": [0, 1], "b": [0, 1], "c": [0, 1]}, read=read)
    by_hand = [{"a": 0, "c": 0}, {"a": 0, "c": 1}, *({"a": 1, "b": b, "c": c} for b, c in [(0, 0), (0, 1), (1, 0)])]
    assert sorted(map(str, chosen)) == sorted(map(str, by_hand))


@pytest.mark.parametrize("group", GROUPS)
def test_every_two_options_meet_where_both_are_read(group: str) -> None:
    read, values, never = GROUPS[group]
    found = set().union(*(pairs(read(model)) for model in MODELS.values()))
    missing = [
        {first: one, second: other}
        for first, second in itertools.combinations(values, 2)
        for one, other in itertools.product(values[first], values[second])
        if not never({first: one, second: other}) and not pairs({first: one, second: other}) <= found
    ]
    assert missing == []


@pytest.mark.parametrize("group", GROUPS)
def test_what_is_said_never_to_meet_does_not(group: str) -> None:
    read, _, never = GROUPS[group]
    held = [dict(pair) for model in MODELS.values() for pair in pairs(read(model))]
    assert [each for each in held if never(each)] == []


def test_every_decoder_and_every_setting_is_counted() -> None:
    assert {decoder.model_fields["kind"].default for decoder in DECODERS.values()} == set(kinds(DecoderConfig))
    in_training = {"dropout", "variational", "noise"}
    sizes = {"width", "embedding"}
    assert set(StackConfig.model_fields) - in_training - sizes == {"cell", "layers", "connection", "layer_norm"}


def test_recurrent_layers_are_eight_deep_in_one() -> None:
    both = [model for model in MODELS.values() if isinstance(model.encoder, RecurrentEncoderConfig)]
    assert max(min(model.encoder.layers, getattr(model.decoder, "layers", 1)) for model in both) >= 8


@pytest.mark.parametrize("attending", SWITCH)
@pytest.mark.parametrize("layers", [1, 2, 3])
@torch.no_grad()
def test_a_connection_counts_where_it_changes_what_is_computed(layers: int, attending: bool) -> None:
    """Residual layers have the same weights as plain ones."""

    def config(connection: str) -> ModelConfig:
        encoder = RecurrentEncoderConfig(layers=layers, width=6, embedding=5, connection=connection)
        kind = LuongConfig if attending else RecurrentDecoderConfig
        return ModelConfig(encoder=encoder, decoder=kind(layers=1, width=6, embedding=7))

    plain, residual = (
        loud(Model(config(name), sizes=SIZES))(source(), target()).hidden for name in ("none", "residual")
    )
    assert torch.equal(plain, residual) == (not connection_is_read(config("residual")))
