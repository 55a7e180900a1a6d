"""The list of models is a pairwise cover: every possible pair of options occurs in one of its models.

Only options that have an effect in a model count. There are three groups: the options of recurrent encoders, the
options of encoder, decoder and output layer against each other, and those of attention. Across groups, pairs that do
not occur must be rejected. Transformers are covered by tests/unit/models/test_transformer.py.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, get_args

import pytest
import torch
from pydantic import ValidationError

from calque.errors import ConfigError
from calque.layers.attention import AttentionConfig
from calque.layers.attention_scores import ScoreName
from calque.layers.connections import ConnectionName
from calque.layers.positions import PositionsName
from calque.layers.recurrent import CellName
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
    """The kinds of a union of configs, without "none": see tests/laws/test_language.py."""
    names = [config.model_fields["kind"].default for config in get_args(get_args(union)[0])]
    return [name for name in names if name != "none"]


def impossible_in_encoder(choice: Choice) -> bool:
    """A single layer has no connections, and is its own first layer."""
    return choice.get("layers") == "one" and ("connection" in choice or choice.get("bidirectional") == "first")


def impossible_between_parts(choice: Choice) -> bool:
    """Options that a decoder does not have, and states that an encoder does not have or that are not used."""
    decoder, bridge, layers = choice.get("decoder"), choice.get("bridge"), choice.get("layers")
    available = {*DECODERS[decoder].model_fields, "encoder", "decoder", "layers", "output"} if decoder else set(choice)
    return (
        not available >= set(choice)
        or (layers == "more" and decoder in ("cho", "bahdanau"))
        or (layers == "one" and "connection" in choice)
        or (decoder == "gnmt" and choice.get("connection") == "dense")
        or (bridge == "backward" and choice.get("encoder", "both ways") != "both ways")
        or (bridge in ("backward", "zero") and decoder == "recurrent")
    )


class Group(NamedTuple):
    """A group of options whose pairs must be covered."""

    read: Callable[[ModelConfig], Choice]  # the options that have an effect in a model
    values: dict[str, Iterable[Any]]
    never: Callable[[Choice], bool]  # whether a pair of settings is impossible


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
        impossible_in_encoder,
    ),
    "parts": Group(
        between_parts,
        {
            "encoder": ["forward", "both ways", *(kind for kind in kinds(EncoderConfig) if kind != "recurrent")],
            "decoder": DECODERS,
            "cell": CELLS,
            "connection": CONNECTIONS,
            "layers": ("one", "more"),
            "layer_norm": SWITCH,
            "bridge": get_args(BridgeName),
            "output": kinds(OutputConfig),
        },
        impossible_between_parts,
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
    "tie": [tie for tie in get_args(ModelConfig.model_fields["tie"].annotation) if tie != "auto"],  # one of the others
    "mixer": get_args(MixerName),
    "positions": get_args(PositionsName),
}


def test_a_cover_counts_used_settings_and_excludes_impossible_combinations() -> None:
    def read(choice: Choice) -> Choice | None:
        if choice["a"] == 0:
            return {key: value for key, value in choice.items() if key != "b"}
        return None if choice["b"] == choice["c"] == 1 else choice

    chosen = pairwise({"a": [0, 1], "b": [0, 1], "c": [0, 1]}, read=read)
    by_hand = [{"a": 0, "c": 0}, {"a": 0, "c": 1}, *({"a": 1, "b": b, "c": c} for b, c in [(0, 0), (0, 1), (1, 0)])]
    assert sorted(map(str, chosen)) == sorted(map(str, by_hand))


@pytest.mark.parametrize("group", GROUPS)
def test_every_pair_of_used_options_is_covered(group: str) -> None:
    read, values, never = GROUPS[group]
    assert [choice for choice in uncovered_pairs(values, read=read) if not never(choice)] == []


def uncovered_pairs(values: dict[str, Iterable[Any]], *, read: Callable[[ModelConfig], Choice]) -> list[Choice]:
    """All pairs of settings that no model of the list uses together."""
    covered = set().union(*(pairs(read(model)) for model in MODELS.values()))
    return [
        {first: first_value, second: second_value}
        for first, second in itertools.combinations(values, 2)
        for first_value, second_value in itertools.product(values[first], values[second])
        if not pairs({first: first_value, second: second_value}) <= covered
    ]


@pytest.mark.parametrize("group", GROUPS)
def test_pairs_declared_impossible_do_not_occur(group: str) -> None:
    read, _, never = GROUPS[group]
    choices = [dict(two) for model in MODELS.values() for two in pairs(read(model))]
    assert [choice for choice in choices if never(choice)] == []


def test_every_pair_across_groups_is_covered_or_rejected_in_every_model() -> None:
    assert [choice for choice in uncovered_pairs(ACROSS, read=across) if attempt(choice) is not None] == []


@pytest.mark.parametrize(
    ("pair", "is_possible"),
    [
        ({"score": "dot", "encoder": "mean"}, True),
        ({"copies": True, "mixer": "ssru"}, True),
        ({"bridge": "copy", "encoder": "transformer"}, True),  # where the decoder has one layer
        ({"bridge": "zero", "decoder": "luong"}, True),
        ({"bridge": "zero", "decoder": "recurrent"}, False),  # it would have no access to the source
        ({"bridge": "backward", "decoder": "recurrent"}, False),
        ({"bridge": "backward", "encoder": "forward"}, False),
        ({"copies": True, "output": "sampled"}, False),
        ({"tie": "all", "output": "adaptive"}, False),
        ({"tie": "all", "decoder": "cho"}, True),
        ({"score": "dot", "decoder": "transformer"}, False),
    ],
)
def test_possible_pairs_are_found_by_building_them(pair: Choice, is_possible: bool) -> None:
    assert (attempt(pair) is not None) == is_possible


def attempt(pair: Choice) -> ModelConfig | None:
    """A model that uses both settings, if one can be built and all its weights get gradients.

    Tries every model of the list with the two settings, so that no third option is the reason for a rejection; but only
    one model per kind of decoder if that kind lacks the option altogether.
    """
    without_option = set()
    for base in distinct(map(across, MODELS.values())):
        decoder = base["decoder"]
        if decoder in without_option or pair.get("decoder", decoder) != decoder:
            continue
        try:
            changed = mixed.build(**base | pair)
            Model(changed, sizes=sizes_for(changed))
        except ConfigError:
            continue
        except ValidationError as error:
            if any(problem["type"] == "extra_forbidden" for problem in error.errors()):
                without_option.add(decoder)
            continue
        if pairs(pair) <= pairs(across(changed)) and not idle(changed):
            return changed
    return None


def test_every_decoder_and_every_setting_is_included() -> None:
    assert {decoder.model_fields["kind"].default for decoder in DECODERS.values()} == set(kinds(DecoderConfig))
    in_training = {"dropout", "variational", "weight_dropout", "noise"}
    sizes = {"width", "embedding"}
    assert set(StackConfig.model_fields) - in_training - sizes == {"cell", "layers", "connection", "layer_norm"}


def test_one_model_has_eight_recurrent_layers() -> None:
    recurrent = [model for model in MODELS.values() if isinstance(model.encoder, RecurrentEncoderConfig)]
    assert max(min(model.encoder.layers, getattr(model.decoder, "layers", 1)) for model in recurrent) >= 8


@pytest.mark.parametrize("attending", SWITCH)
@pytest.mark.parametrize("layers", [1, 2, 3])
@torch.no_grad()
def test_a_connection_counts_where_it_changes_the_output(layers: int, attending: bool) -> None:
    """Residual layers have the same weights as plain ones."""

    def config(connection: str) -> ModelConfig:
        encoder = RecurrentEncoderConfig(layers=layers, width=6, embedding=5, connection=connection)
        kind = LuongConfig if attending else RecurrentDecoderConfig
        return ModelConfig(encoder=encoder, decoder=kind(layers=1, width=6, embedding=7))

    plain, residual = (
        loud(Model(config(name), sizes=SIZES))(source(), target()).hidden for name in ("none", "residual")
    )
    assert torch.equal(plain, residual) == (not connection_is_read(config("residual")))
