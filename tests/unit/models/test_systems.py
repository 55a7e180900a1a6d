"""Named systems: as large as their papers say, and smaller when scaled."""

import pytest
import torch

from calque.config import check, to_values
from calque.errors import ConfigError
from calque.layers.connections import Connection
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.systems import SYSTEMS, TRANSLATORS, changed_sizes, scaled, system_model
from calque.models.transformer import TransformerDecoderConfig


def parameters(model: ModelConfig, sizes: Sizes, *, leaving_out: tuple[str, ...] = ()) -> int:
    with torch.device("meta"):
        built = Model(model, sizes=sizes)
    return sum(one.numel() for name, one in built.named_parameters() if not any(part in name for part in leaving_out))


def test_sutskevers_384_million() -> None:
    """§3.4: 384M parameters with 160,000 source and 80,000 target words, 64M of them recurrent (without biases)."""
    sizes = Sizes(160_000, 80_000, joint=False)
    model = TRANSLATORS["sutskever2014"].model
    assert parameters(model, sizes, leaving_out=("bias",)) == 384_000_000
    assert parameters(model, sizes, leaving_out=("bias", "embedding", "output")) == 64_000_000


@pytest.mark.parametrize(("name", "millions"), [("vaswani2017-base", 65), ("vaswani2017-big", 213)])
def test_vaswanis_table_3(name: str, millions: int) -> None:
    """Table 3, with the 37,000 shared pieces of §5.1; the paper does not say what it counts."""
    found = parameters(TRANSLATORS[name].model, Sizes(37_000, 37_000, joint=True))
    assert found / 1e6 == pytest.approx(millions, rel=0.04)


@pytest.mark.parametrize("scale", [0.01, 0.1, 0.25, 0.5, 2.0])
@pytest.mark.parametrize("name", TRANSLATORS)
def test_every_system_can_be_scaled_and_built(name: str, scale: float) -> None:
    sizes = Sizes(50, 50, joint=True)
    whole, other = parameters(TRANSLATORS[name].model, sizes), parameters(system_model(name, scale=scale), sizes)
    assert other < whole if scale < 1 else other > whole


def test_what_a_scale_changes() -> None:
    small = system_model("vaswani2017-base", scale=0.25)
    assert (small.encoder.width, small.encoder.feed_forward, small.encoder.heads) == (128, 512, 2)
    assert (small.encoder.layers, small.encoder.norm, small.tie) == (2, "post", "auto")
    assert system_model("bahdanau2015", scale=0.25).decoder.attention.alignment == 248
    assert system_model("cho2014", scale=0.25).encoder.layers == 1
    assert scaled(TRANSLATORS["tiny"].model, scale=1.0) is TRANSLATORS["tiny"].model


@pytest.mark.parametrize(("scale", "heads"), [(0.25, (2, 1, 1)), (0.5, (4, 2, 2)), (0.1, (1, 1, 1)), (2.0, (16, 8, 6))])
def test_shared_keys_and_the_shown_layer_go_along(scale: float, heads: tuple[int, int, int]) -> None:
    values = to_values(TRANSLATORS["vaswani2017-base"].model)
    values["decoder"] |= {"key_value_heads": 4, "attention_layer": 3}
    found = scaled(check(ModelConfig, values, origin="test"), scale=scale).decoder
    assert isinstance(found, TransformerDecoderConfig)
    assert (found.heads, found.key_value_heads, found.attention_layer) == heads


def test_what_a_scale_changes_is_told_part_by_part() -> None:
    assert changed_sizes("cho2014", scale=0.5) == [
        "encoder.width 496 (1000), encoder.embedding 48 (100)",
        "decoder.width 496 (1000), decoder.embedding 48 (100), decoder.readout 248 (500)",
    ]
    assert changed_sizes("gnmt2016", scale=0.25)[1].endswith("decoder.attention.alignment 256 (1024)")
    assert changed_sizes("luong2015", scale=0.25)[0].startswith("encoder.layers 2 (4), encoder.width 248 (1000)")
    assert changed_sizes("luong2015", scale=0.25)[2] == "spread 0.2 (0.1)"
    assert changed_sizes("tiny", scale=1.0) == []


@pytest.mark.parametrize(("name", "spread"), [("sutskever2014", 0.08), ("luong2015-hard", 0.1), ("gnmt2016", 0.04)])
def test_initial_weights_are_drawn_as_wide_as_in_the_paper(name: str, spread: float) -> None:
    """Sutskever §3.4, Luong §4.1, Wu §8: uniformly from ± spread, all of them; a model made narrower draws wider."""
    assert TRANSLATORS[name].model.spread == spread
    small = system_model(name, scale=0.25)
    assert small.spread == spread * 2
    built = Model(small, sizes=Sizes(50, 50, joint=True))
    for each in filter(lambda one: one.requires_grad, built.parameters()):
        assert each.detach().abs().max() <= spread * 2
        if each.numel() > 500:
            assert each.detach().std() == pytest.approx(spread * 2 / 3**0.5, rel=0.1)


def test_sums_over_a_width_stay_as_large_when_a_system_is_scaled() -> None:
    """What enters a gate is a sum of `width` products: its spread is the weights' times the root of the width."""
    for scale in (0.1, 0.25, 2.0):
        small = system_model("luong2015", scale=scale)
        assert small.spread is not None
        assert small.spread * small.decoder.width**0.5 == pytest.approx(0.1 * 1000**0.5, rel=0.03)


def test_norms_and_highways_keep_what_they_begin_with() -> None:
    values = to_values(system_model("luong2015", scale=0.02))
    values["encoder"] |= {"layer_norm": True, "connection": "highway"}
    built = Model(check(ModelConfig, values, origin="test"), sizes=Sizes(20, 20, joint=True))
    parts = list(built.encoder.modules())
    norms = [part for part in parts if isinstance(part, torch.nn.LayerNorm)]
    gates = [part.gate for part in parts if isinstance(part, Connection) and part.gate is not None]
    assert norms and gates
    assert all((norm.weight == 1).all() for norm in norms) and all((gate.bias == -1).all() for gate in gates)


def test_a_spread_is_for_recurrent_sides() -> None:
    whole = to_values(system_model("tiny"))
    with pytest.raises(ConfigError, match=r"spread = 0\.1 is for recurrent models"):
        check(ModelConfig, whole | {"spread": 0.1}, origin="test")
    mixed = to_values(system_model("luong2015", scale=0.064)) | {"encoder": {"kind": "transformer", "width": 64}}
    mixed["decoder"]["bridge"] = "zero"
    torch.manual_seed(3)
    drawn = Model(check(ModelConfig, mixed, origin="test"), sizes=Sizes(20, 20, joint=True))
    torch.manual_seed(3)
    own = Model(check(ModelConfig, mixed | {"spread": None}, origin="test"), sizes=Sizes(20, 20, joint=True))
    assert all(torch.equal(*pair) for pair in zip(drawn.encoder.parameters(), own.encoder.parameters(), strict=True))
    assert not torch.equal(drawn.output.weight, own.output.weight)


@pytest.mark.parametrize("scale", [0.0, -1.0, 5.0, float("nan")])
def test_a_scale_that_makes_no_sense_is_refused(scale: float) -> None:
    with pytest.raises(ConfigError, match="scale is"):
        system_model("tiny", scale=scale)


def test_every_system_says_where_it_comes_from() -> None:
    assert all(system.paper and system.summary for system in SYSTEMS.values())
