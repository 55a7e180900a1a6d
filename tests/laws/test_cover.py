"""The list of models is a cover: every two options that can be read in one model are read together in one of the list.

Counted over the models as built: what is idle in a model counts for nothing there. Three groups are counted: the
options of recurrent encoders, those of encoder, decoder and output layer to each other, and those of attention. Then
options of all groups across, where what does not meet must be refused. Transformers have a count of their own in
tests/unit/models/test_transformer.py.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, get_args

import pytest
import torch
from pydantic import ValidationError

from calque.errors import ConfigError
from calque.layers.attention import AttentionConfig
from calque.layers.connections import ConnectionName
from calque.layers.positions import PositionsName
from calque.layers.recurrent import CellName
from calque.layers.scores import ScoreName
from calque.layers.stack import StackConfig
from calque.layers.transformer import MixerName
from calque.models.bahdanau import BahdanauConfig
from calque.models.bridge import BridgeName
from calque.models.cho import ChoConfig
from calque.models.convolutional import ConvolutionalDecoderConfig
from calque.models.gnmt import GnmtConfig
from calque.models.luong import LuongConfig
from calque.models.model import DecoderConfig, EncoderConfig, Model, ModelConfig, OutputConfig
from calque.models.recurrent import RecurrentDecoderConfig, RecurrentEncoderConfig
from calque.models.transformer import TransformerDecoderConfig
from tests.laws.cover import Choice, distinct, pairs, pairwise
from tests.laws.families import mixed
from tests.laws.models import MODELS, SIZES, idle, loud, sizes_for, source, target
from tests.laws.readings import across, between_parts, connection_is_read, in_attention, in_encoder

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
            "encoder": ["forward", "both ways", *(each for each in kinds(EncoderConfig) if each != "recurrent")],
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


PARTS, ATTENTION = GROUPS["parts"].values, GROUPS["attention"].values
ACROSS = {
    **{name: values for name, values in (ATTENTION | PARTS).items() if name != "layers"},
    "tie": get_args(ModelConfig.model_fields["tie"].annotation),
    "mixer": get_args(MixerName),
    "positions": get_args(PositionsName),
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
    assert [each for each in apart(values, read=read) if not never(each)] == []


def apart(values: dict[str, Iterable[Any]], *, read: Callable[[ModelConfig], Choice]) -> list[Choice]:
    """Every two settings that no model of the list reads together."""
    found = set().union(*(pairs(read(model)) for model in MODELS.values()))
    return [
        {first: one, second: other}
        for first, second in itertools.combinations(values, 2)
        for one, other in itertools.product(values[first], values[second])
        if not pairs({first: one, second: other}) <= found
    ]


@pytest.mark.parametrize("group", GROUPS)
def test_what_is_said_never_to_meet_does_not(group: str) -> None:
    read, _, never = GROUPS[group]
    held = [dict(pair) for model in MODELS.values() for pair in pairs(read(model))]
    assert [each for each in held if never(each)] == []


def test_every_two_options_of_all_groups_meet_unless_every_model_with_both_is_refused() -> None:
    assert [each for each in apart(ACROSS, read=across) if attempt(each) is not None] == []


@pytest.mark.parametrize(
    ("both", "can_be"),
    [
        ({"score": "dot", "encoder": "mean"}, True),
        ({"copies": True, "mixer": "ssru"}, True),
        ({"bridge": "copy", "encoder": "transformer"}, True),  # where the decoder has one layer
        ({"bridge": "zero", "decoder": "luong"}, True),
        ({"bridge": "zero", "decoder": "recurrent"}, False),  # it would know nothing of the source
        ({"bridge": "backward", "decoder": "recurrent"}, False),
        ({"bridge": "backward", "encoder": "forward"}, False),
        ({"copies": True, "output": "sampled"}, False),
        ({"tie": "all", "output": "adaptive"}, False),
        ({"tie": "all", "decoder": "cho"}, True),
        ({"score": "dot", "decoder": "transformer"}, False),
    ],
)
def test_what_can_be_is_found_by_building_it(both: Choice, can_be: bool) -> None:
    assert (attempt(both) is not None) == can_be


def attempt(both: Choice) -> ModelConfig | None:
    """A model that reads two settings, if any can be built and learns with all its weights.

    Tried are the models of the list with the two set, so that what refuses them is not a third option; but of one
    kind of decoder a single one where that has no such option at all.
    """
    missing_phrase = set()
    for base in distinct(map(across, MODELS.values())):
        decoder = base["decoder"]
        if decoder in missing_phrase or both.get("decoder", decoder) != decoder:
            continue
        try:
            changed = mixed.build(**base | both)
            Model(changed, sizes=sizes_for(changed))
        except ConfigError:
            continue
        except ValidationError as error:
            if any(each["type"] == "extra_forbidden" for each in error.errors()):
                missing_phrase.add(decoder)
            continue
        if pairs(both) <= pairs(across(changed)) and not idle(changed):
            return changed
    return None


def test_every_decoder_and_every_setting_is_counted() -> None:
    assert {decoder.model_fields["kind"].default for decoder in DECODERS.values()} == set(kinds(DecoderConfig))
    in_training = {"dropout", "variational", "weight_dropout", "noise"}
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
