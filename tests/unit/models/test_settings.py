"""Model settings: unused settings are rejected, and so are impossibly large sizes."""

import tomllib
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from calque.config import Config, check, to_toml, to_values
from calque.errors import ConfigError
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.systems import TRANSLATORS, system_model
from calque.models.tagger import TaggerConfig

HARD = ("attention.reinforce", "attention.discount", "attention.entropy", "attention.soft_share")
IDLE: list[tuple[str, dict[str, Any], object, str]] = [  # side and kind, other settings, key, what it needs
    ("decoder.luong", {}, "attention.window", "reach = 'local-m' or 'local-p'"),
    ("decoder.luong", {}, "attention.alignment", "score = 'additive'"),
    ("decoder.gnmt", {"attention": {"score": "concat"}}, "attention.alignment", "score = 'additive'"),
    ("decoder.luong", {}, "attention.longest", "score = 'location'"),
    ("decoder.bahdanau", {}, "attention.longest", "score = 'location'"),
    ("decoder.luong", {}, "attention.coverage_loss", "coverage = true"),
    *(("decoder.luong", {}, key, "choice = 'hard'") for key in HARD),
    *(
        (f"{side}.transformer", {"positions": positions}, key, f"positions = '{need}'")
        for side in ("encoder", "decoder")
        for key, need in (("maximum_positions", "learned"), ("relative_reach", "relative"))
        for positions in ("sinusoidal", "rotary", "learned", "relative")
        if positions != need
    ),
]


def settings(where: str, others: dict[str, Any], key: str, value: object) -> dict[str, Any]:
    """The settings of a model whose encoder or decoder has one more setting."""
    side, kind = where.split(".")
    part = {"kind": kind, **others}
    *inner, last = key.split(".")
    for section in inner:
        part[section] = {**part.get(section, {})}
    (part[inner[0]] if inner else part)[last] = value
    return {side: part}


def default(where: str, key: str) -> Any:
    side, kind = where.split(".")
    value: Any = getattr(check(ModelConfig, {side: {"kind": kind}}, origin="default"), side)
    for part in key.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize(("where", "others", "key", "need"), IDLE)
def test_an_unused_setting_is_rejected_unless_it_is_the_default(
    where: str, others: dict[str, Any], key: str, need: str
) -> None:
    default_value = default(where, key)
    value = 0.75 if isinstance(default_value, float) else default_value + 1
    name = key.split(".")[-1]
    with pytest.raises(ConfigError) as caught:
        check(ModelConfig, settings(where, others, key, value), origin="x")
    assert f"{name} = {value} is used only with {need}; leave it out, or set it to {default_value}" in str(caught.value)
    check(ModelConfig, settings(where, others, key, default_value), origin="x")
    check(ModelConfig, settings(where, others, key, value), origin="x", written=True)


def test_a_used_setting_is_accepted() -> None:
    attention = {"choice": "hard", "entropy": 0.5, "reach": "local-p", "window": 3, "score": "location", "longest": 9}
    decoder = check(ModelConfig, {"decoder": {"kind": "luong", "attention": attention}}, origin="x").decoder
    assert attention.items() <= to_values(decoder)["attention"].items()
    relative = {"kind": "transformer", "positions": "relative", "relative_reach": 3}
    encoder = check(ModelConfig, {"encoder": relative}, origin="x").encoder
    assert relative.items() <= to_values(encoder).items()


def test_all_unused_settings_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        check(ModelConfig, {"decoder": {"kind": "luong", "attention": {"window": 3, "entropy": 0.5}}}, origin="x")
    assert "window = 3" in str(caught.value) and "entropy = 0.5" in str(caught.value)


@pytest.mark.parametrize("scale", [1, 0.25])
@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_system_round_trips_through_toml(name: str, scale: float) -> None:
    model = system_model(name, scale=scale)
    assert check(ModelConfig, tomllib.loads(to_toml(model)), origin="x") == model


def sizes(annotation: object, *, path: str = "") -> Iterator[tuple[str, type[Config], str]]:
    """Every integer setting of a config and of all its alternatives: its name, config class and key."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        for key, field in annotation.model_fields.items():
            kinds = {field.annotation, *get_args(field.annotation)}
            if int in kinds or any(int in get_args(kind) for kind in kinds):
                yield f"{path}{annotation.__name__}.{key}", annotation, key
            yield from sizes(field.annotation, path=f"{annotation.__name__} ")
    for part in get_args(annotation):
        yield from sizes(part, path=path)


SIZES = {name: (kind, key) for name, kind, key in sizes(ModelConfig) if key != "cutoffs"}
"""Cutoffs are ranks in the vocabulary, whose size is known only when the layer is built."""


def test_the_sizes_are_found() -> None:
    keys = {key for _, key in SIZES.values()}
    expected = {"layers", "width", "embedding", "readout", "heads", "key_value_heads", "feed_forward", "kernel"}
    assert expected | {"maximum_positions", "relative_reach", "longest", "window", "alignment", "samples"} <= keys


@pytest.mark.parametrize("name", SIZES)
def test_an_impossibly_large_size_is_rejected_with_its_key(name: str) -> None:
    kind, key = SIZES[name]
    for size in (10**12, 10**30):
        with pytest.raises(ConfigError, match=f"{key}: input should be less than or equal to"):
            check(kind, {key: size}, origin="x")


# Parts that do not fit together


@pytest.mark.parametrize(
    ("values", "joint", "message"),
    [
        (
            {"encoder": {"kind": "recurrent", "bidirectional": False}, "decoder": {"kind": "bahdanau"}},
            False,
            "bridge 'backward': the encoder's top layer is unidirectional; use bridge = 'tanh'",
        ),
        (
            {"encoder": {"kind": "recurrent"}, "decoder": {"kind": "luong", "copies": True}, "tie": "none"},
            False,
            "model.decoder.copies needs one vocabulary for both sides: set text.joint = true",
        ),
    ],
    ids=["bridge", "copying"],
)
def test_sides_that_do_not_fit_are_rejected(values: dict[str, Any], joint: bool, message: str) -> None:
    config = check(ModelConfig, values, origin="x")
    with pytest.raises(ConfigError) as caught:
        Model(config, sizes=Sizes(9, 9, joint=joint))
    assert message in str(caught.value)


@pytest.mark.parametrize("kind", ["sampled", "adaptive"])
def test_copying_needs_the_full_softmax(kind: str) -> None:
    values = {"decoder": {"kind": "luong", "copies": True}, "output": {"kind": kind}, "tie": "none"}
    with pytest.raises(ConfigError, match=rf"decoder\.copies and output\.kind = '{kind}' cannot be combined"):
        check(ModelConfig, values, origin="x")


def test_each_direction_of_recurrent_characters_gets_half_of_their_width() -> None:
    values = {"characters": {"kind": "recurrent", "width": 5}}
    with pytest.raises(ConfigError, match="width 5 must be even: each direction gets half"):
        check(TaggerConfig, values, origin="x")
