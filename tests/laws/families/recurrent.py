"""Recurrent encoders and decoders, without and with attention."""

from calque.models.bahdanau import BahdanauConfig
from calque.models.luong import LuongConfig
from calque.models.model import ModelConfig
from calque.models.recurrent import RecurrentDecoderConfig, RecurrentEncoderConfig


def encoder(cell="lstm", *, bidirectional=True, layers=2, width=6):
    return RecurrentEncoderConfig(cell=cell, layers=layers, width=width, embedding=5, bidirectional=bidirectional)


def _luong(cell="lstm", *, score="general", feeding=True, layers=2, bidirectional=True):
    decoder = LuongConfig(cell=cell, layers=layers, width=6, embedding=7, score=score, input_feeding=feeding)
    return ModelConfig(encoder=encoder(cell, bidirectional=bidirectional, layers=layers), decoder=decoder)


def _plain(cell="lstm", *, layers=2, bidirectional=False):
    decoder = RecurrentDecoderConfig(cell=cell, layers=layers, width=6, embedding=7)
    return ModelConfig(encoder=encoder(cell, bidirectional=bidirectional, layers=layers), decoder=decoder)


def _bahdanau(cell="gru-original"):
    decoder = BahdanauConfig(cell=cell, width=9, embedding=7, alignment=5, readout=8)
    return ModelConfig(encoder=encoder(cell, layers=1), decoder=decoder)


MODELS: dict[str, ModelConfig] = {
    "rnn": _plain("rnn"),
    "lstm": _plain("lstm"),
    "gru": _plain("gru", layers=3),
    "gru-original-bidirectional": _plain("gru-original", bidirectional=True, layers=1),
    "luong-dot": _luong(score="dot", feeding=False),
    "luong-dot-feeding": _luong(score="dot"),
    "luong-general": _luong(feeding=False, bidirectional=False),
    "luong-general-feeding": _luong(),
    "luong-concat": _luong("gru", score="concat", feeding=False),
    "luong-concat-feeding": _luong("gru", score="concat", layers=1),
    "luong-rnn-feeding": _luong("rnn"),
    "luong-gru-original-feeding": _luong("gru-original"),
    "bahdanau": _bahdanau(),
    "bahdanau-lstm": _bahdanau("lstm"),
}
