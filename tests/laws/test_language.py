"""A decoder without a source is a language model: it obeys the laws of targets, and the source has no effect."""

import pytest
import torch
from calque.models.none import NoneEncoderConfig

from calque.models.convolutional import ConvolutionalDecoderConfig
from calque.models.luong import LuongConfig
from calque.models.model import Model, ModelConfig
from calque.models.recurrent import RecurrentDecoderConfig
from calque.models.systems import system_model
from tests.laws.laws import LAWS, close
from tests.laws.models import SIZES, loud, source, target

ENCODER = NoneEncoderConfig(width=6)
MODELS = {
    "transformer": system_model("language", scale=0.01),
    "lstm": ModelConfig(encoder=ENCODER, decoder=RecurrentDecoderConfig(layers=2, width=6, embedding=7, bridge="zero")),
    "luong": ModelConfig(encoder=ENCODER, decoder=LuongConfig(layers=1, width=6, embedding=7)),
    "convolutional": ModelConfig(encoder=ENCODER, decoder=ConvolutionalDecoderConfig(layers=2, width=8, embedding=6)),
}
OF_TARGETS = ["chunk", "row", "sharing", "compaction", "prefixes", "search", "self_ensemble", "batch"]


@pytest.mark.parametrize("law", OF_TARGETS)
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_law(name: str, law: str) -> None:
    LAWS[law](loud(Model(MODELS[name], sizes=SIZES)), tolerance=1e-9)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_the_source_has_no_effect(name: str) -> None:
    model = loud(Model(MODELS[name], sizes=SIZES))
    hidden, other_hidden = (model(source(seed), target()).hidden for seed in (0, 1))
    close(hidden, other_hidden, tolerance=1e-12)
    close(hidden[0], model(source(), target()[[0, 0, 0]]).hidden[2], tolerance=1e-9)
