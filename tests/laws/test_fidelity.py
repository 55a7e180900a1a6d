"""9. Fidelity of what the list of models does not contain: every kind of recurrent encoder, and each bridge.

The law `fidelity` in tests/laws/laws.py compares the list itself with the equations.
"""

import pytest
import torch

from calque.models.bahdanau import BahdanauConfig
from calque.models.luong import LuongConfig
from calque.models.model import Model, ModelConfig
from calque.models.recurrent import RecurrentDecoderConfig, RecurrentEncoder, RecurrentEncoderConfig
from calque.models.transformer import TransformerEncoderConfig
from tests.laws import equations
from tests.laws.laws import close, fidelity
from tests.laws.models import SIZES, loud, source

CELLS = ["rnn", "lstm", "gru", "gru-original"]


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_recurrent_encoder_computes_its_equations(cell: str, bidirectional: bool, layers: int) -> None:
    config = RecurrentEncoderConfig(cell=cell, bidirectional=bidirectional, layers=layers, width=6, embedding=5)
    encoder = loud(RecurrentEncoder(config, vocabulary_size=SIZES.source))
    sentences = source()
    memory = encoder(sentences)
    for row, size in enumerate(sentences.lengths.tolist()):
        values, finals = equations.encode(encoder, sentences.values[row, :size].tolist())
        close(memory.values[row, :size], torch.stack(values), tolerance=1e-9)
        for part, expected in enumerate(zip(*finals, strict=True)):
            close(memory.final[part][row], torch.stack(expected), tolerance=1e-9)


GRU = RecurrentEncoderConfig(cell="gru", layers=3, width=6, embedding=5)
LSTM = RecurrentEncoderConfig(cell="lstm", layers=2, width=6, embedding=5)
BRIDGES = {
    "zero": (LSTM, RecurrentDecoderConfig(layers=2, width=9, embedding=7, bridge="zero")),
    "tanh to another width": (LSTM, LuongConfig(layers=2, width=9, embedding=7, bridge="tanh")),
    "backward": (LSTM, RecurrentDecoderConfig(layers=1, width=9, embedding=7, bridge="backward")),
    "copy of the top layers": (GRU, RecurrentDecoderConfig(cell="gru", layers=2, width=6, embedding=7)),
    "lstm after gru": (GRU, LuongConfig(cell="lstm", layers=3, width=6, embedding=7)),
    "gru after lstm": (LSTM, BahdanauConfig(cell="gru", width=9, embedding=7, readout=8)),
    "after a transformer": (
        TransformerEncoderConfig(layers=1, width=8, heads=2, feed_forward=10),
        BahdanauConfig(cell="lstm", width=9, embedding=7, readout=8, bridge="tanh"),
    ),
}


@pytest.mark.parametrize("name", BRIDGES)
@torch.no_grad()
def test_the_initial_state_is_that_of_the_bridge(name: str) -> None:
    encoder, decoder = BRIDGES[name]
    fidelity(loud(Model(ModelConfig(encoder=encoder, decoder=decoder), sizes=SIZES)), tolerance=1e-9)
