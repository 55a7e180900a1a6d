"""Every law on every model, in float64 to 1e-9, and in float32 to 1e-4."""

import pytest
import torch

from calque.models.luong import LuongConfig
from calque.models.model import Model, ModelConfig
from calque.models.recurrent import RecurrentDecoderConfig, RecurrentEncoderConfig
from tests.laws.laws import LAWS, begin, chunk, read
from tests.laws.models import MODELS, SIZES, build, loud, target


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_law(name: str, law: str) -> None:
    LAWS[law](build(name), tolerance=1e-9)


@pytest.mark.parametrize("law", ["chunk", "padding", "row", "sharing", "compaction"])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_law_in_float32(name: str, law: str) -> None:
    LAWS[law](build(name, dtype=torch.float32), tolerance=1e-4)


DROPPED = {
    "variational": {"variational": True, "dropout": 0.4},
    "weights": {"dropout": 0.0, "weight_dropout": 0.4},
    "both": {"variational": True, "dropout": 0.4, "weight_dropout": 0.4},
}


@pytest.mark.parametrize("connection", ["none", "dense"])
@pytest.mark.parametrize("decoder", ["recurrent", "luong", "feeding"])
@pytest.mark.parametrize("dropped", DROPPED)
@torch.no_grad()
def test_chunks_drop_the_same_where_masks_are_in_the_state(dropped: str, decoder: str, connection: str) -> None:
    """The chunk law in training mode."""
    options = {"layers": 2, "width": 6, "embedding": 7, "connection": connection, **DROPPED[dropped]}
    config = RecurrentDecoderConfig(**options)
    if decoder != "recurrent":
        config = LuongConfig(**options, input_feeding=decoder == "feeding")
    model = loud(Model(ModelConfig(encoder=RecurrentEncoderConfig(width=6), decoder=config), sizes=SIZES)).train()
    chunk(model, tolerance=1e-9)
    context, start = begin(model)
    (first, _), (second, _) = (read(model, target(), state, context) for state in (start, model.start(context)))
    assert not torch.equal(first.hidden, second.hidden), "two initial states have different masks"
