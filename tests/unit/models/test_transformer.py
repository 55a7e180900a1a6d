"""Masks of the Transformer decoder, final states, variants and invalid settings.

The law `prefixes` in tests/laws/laws.py checks that prefixes of different length can share a batch.
"""

import itertools
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.laws.families.transformer import VARIANTS
from tests.laws.models import SIZES, sizes, source, target

from calque.models.model import Model, ModelConfig
from calque.models.transformer import (
    Embedding,
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerEncoder,
    TransformerEncoderConfig,
    self_mask,
)


@settings(max_examples=50, deadline=None)
@given(past=st.integers(0, 6), size=st.integers(1, 4), data=st.data())
def test_a_token_sees_its_rows_own_past_and_the_chunk_up_to_itself(past: int, size: int, data) -> None:
    position = data.draw(st.lists(st.integers(0, past), min_size=1, max_size=3))
    mask = self_mask(torch.tensor(position), past=past, size=size)
    assert mask.shape == (len(position), 1, size, past + size)
    for row, read in enumerate(position):
        for token in range(size):
            seen = mask[row, 0, token].nonzero().flatten().tolist()
            assert seen == list(range(past - read, past + token + 1))


@torch.no_grad()
def test_the_final_state_is_the_mean_of_positions_without_padding() -> None:
    config = TransformerEncoderConfig(layers=1, width=6, heads=2, feed_forward=10)
    encoder = TransformerEncoder(config, vocabulary_size=SIZES.source).double().eval()
    memory = encoder(source())
    for row, size in enumerate(source().lengths.tolist()):
        torch.testing.assert_close(memory.final[0][row, 0], memory.values[row, :size].mean(0), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("width", "heads"), [(10, 4), (9, 3)])
def test_a_width_that_is_not_divisible_is_rejected(width: int, heads: int) -> None:
    with pytest.raises(ValidationError, match=f"width {width} must be even and a multiple of heads {heads}"):
        TransformerConfig(width=width, heads=heads)


INVALID = {
    "heads that do not divide": ({"heads": 4, "key_value_heads": 3}, "heads 4 must be a multiple of key_value_heads 3"),
    "pairs that do not come out even": (
        {"width": 12, "heads": 4, "positions": "rotary"},
        "positions = 'rotary' needs an even width per head, but width / heads is 3",
    ),
    "rotary without self-attention": (
        {"positions": "rotary", "mixer": "ssru"},
        "positions 'rotary' are part of self-attention, which mixer 'ssru' replaces; use positions = 'sinusoidal'",
    ),
    "relative without self-attention": ({"positions": "relative", "mixer": "average"}, "mixer 'average' replaces"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_settings_are_rejected_with_a_remedy(name: str) -> None:
    values, message = INVALID[name]
    with pytest.raises(ValidationError, match=message):
        TransformerDecoderConfig(**values)


OPTIONS = ["positions", "activation", "normalisation", "norm", "mixer"]


def choices(config: TransformerConfig) -> dict[str, object]:
    """The options of a variant, with key-value heads as how they are shared."""
    shared = {None: "all", 1: "one"}.get(config.key_value_heads, "some")
    chosen = {name: getattr(config, name) for name in [*OPTIONS, "copies"] if name in type(config).model_fields}
    return chosen | {"key_value_heads": shared}


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_the_variants_cover_every_pair_of_values(side: str) -> None:
    variants = [choices(getattr(model, side)) for model in VARIANTS.values()]
    fields = type(getattr(VARIANTS["transformer-ssru"], side)).model_fields
    values = {name: get_args(fields[name].annotation) for name in OPTIONS if name in fields}
    values |= {"key_value_heads": ("all", "some", "one")}
    values |= {"copies": (False, True)} if side == "decoder" else {}
    impossible = {("rotary", "ssru"), ("rotary", "average"), ("relative", "ssru"), ("relative", "average")}
    missing = [
        (first, first_value, second, second_value)
        for first, second in itertools.combinations(values, 2)
        for first_value, second_value in itertools.product(values[first], values[second])
        if (first_value, second_value) not in impossible
        and not any(variant[first] == first_value and variant[second] == second_value for variant in variants)
    ]
    assert missing == []


def test_embedding_dropout_defaults_to_dropout() -> None:
    def dropped(**dropouts: float) -> float:
        return Embedding(TransformerConfig(width=6, heads=2, **dropouts), vocabulary_size=5).dropout

    assert dropped(dropout=0.3) == 0.3
    assert dropped(dropout=0.3, embedding_dropout=0.0) == 0.0
    assert dropped(dropout=0.0, embedding_dropout=0.2) == 0.2


@torch.no_grad()
def test_grouped_keys_are_cached_once_per_group() -> None:
    model = Model(VARIANTS["transformer-rotary"], sizes=sizes("transformer-rotary")).double().eval()
    context = model.decoder.prepare(model.encode(source()))
    _, state = model.decoder(target(), model.decoder.start(context), context)
    assert {layer.keys.shape for layer in state.past} == {(3, 2, 5, 2)}
    assert {layer.values.shape for layer in context.memory} == {(3, 2, 7, 2)}


@pytest.mark.parametrize("name", ["transformer-ssru", "transformer-average"])
@torch.no_grad()
def test_the_carried_state_of_a_mixer_does_not_grow(name: str) -> None:
    model = Model(VARIANTS[name], sizes=sizes(name)).double().eval()
    context = model.decoder.prepare(model.encode(source()))
    state = model.decoder.start(context)
    for size in (1, 2, 3):
        _, state = model.decoder(target(size=size), state, context)
        assert state.past == ()
        assert state.carried.shape == (3, 2, 6)
    assert state.position.tolist() == [6, 6, 6]


def test_a_copying_model_returns_gate_and_copy_distribution_with_gradients() -> None:
    model = Model(VARIANTS["transformer-relative"], sizes=sizes("transformer-relative")).double()
    output = model(source(), target())
    assert output.gate.shape == target().shape
    torch.testing.assert_close(output.copied.sum(-1), torch.ones_like(output.gate))
    output.copied[..., 0].sum().backward()
    assert model.decoder.blocks[-1].cross_attention.query.weight.grad.any()
    assert Model(ModelConfig(), sizes=SIZES).decoder.copy_gate is None


@pytest.mark.parametrize("name", VARIANTS)
@torch.no_grad()
def test_half_precision_is_close(name: str) -> None:
    """With weights in bfloat16 and under autocast, all tokens at once and one at a time."""
    torch.manual_seed(0)
    model = Model(VARIANTS[name], sizes=sizes(name)).eval()
    exact = model(source(), target()).hidden
    with torch.autocast("cpu", dtype=torch.bfloat16):
        results = [model(source(), target()).hidden, one_by_one(model)]
    model.bfloat16()
    for hidden in [*results, model(source(), target()).hidden, one_by_one(model)]:
        assert (hidden.float() - exact).abs().max() < 0.15


def one_by_one(model: Model) -> torch.Tensor:
    context = model.decoder.prepare(model.encode(source()))
    state, hidden = model.decoder.start(context), []
    for token in target().split(1, dim=1):
        output, state = model.decoder(token, state, context)
        hidden.append(output.hidden)
    return torch.cat(hidden, dim=1)
