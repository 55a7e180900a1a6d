"""The laws on models with 8-bit products in every layer, however small.

All else is computed in float64: in float32, rounding that depends on the shape of a product would now and then turn one
level of an input into the next.
"""

import pytest
import torch

from calque.layers import int8
from calque.layers.int8_linear import Int8Linear
from tests.laws.laws import LAWS
from tests.laws.models import MODELS, build, source, target

# One model of every kind of encoder, decoder and recurrent cell; the others combine the same layers.
SAMPLE = (
    *("rnn", "lstm", "gru", "gru-original-bidirectional", "cho", "luong-general-feeding", "luong-concat"),
    *("luong-gru-original-feeding", "bahdanau", "gnmt", "conv", "conv-kernel-5-2-tied"),
    *("transformer-pre", "transformer-relative", "transformer-ssru", "output-adaptive-luong"),
)
NAMES = [pytest.param(name, marks=[] if name in SAMPLE else [pytest.mark.full]) for name in MODELS]


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "NARROWEST", 1)


@pytest.mark.parametrize("law", [name for name in LAWS if name != "fidelity"])
@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_law(name: str, law: str) -> None:
    model = int8.quantise(build(name))
    assert any(isinstance(module, Int8Linear) for module in model.modules())
    LAWS[law](model, tolerance=1e-5)


@pytest.mark.parametrize("name", SAMPLE)
@torch.no_grad()
def test_a_model_is_close_to_itself_in_float(name: str) -> None:
    """In place of the law of fidelity."""
    model = build(name)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter *= 0.5  # quieter than for the laws: rounding errors grow from layer to layer
    exact = model(source(), target()).hidden
    rounded = int8.quantise(model)(source(), target()).hidden
    error = (rounded - exact).square().mean().sqrt() / (exact - exact.mean(dim=(0, 1))).square().mean().sqrt()
    assert 0 < error < 0.1
