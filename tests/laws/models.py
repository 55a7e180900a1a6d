"""The list of all models: every law runs over it, and a new model is tested by being added here."""

from typing import TypeVar

import torch
from torch import nn

from calque.models.bahdanau import BahdanauConfig
from calque.models.luong import LuongConfig
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.recurrent import RecurrentDecoderConfig, RecurrentEncoderConfig
from calque.models.transformer import TransformerConfig
from calque.tensors import Padded

Module = TypeVar("Module", bound=nn.Module)

# Sizes share no factor with each other, so that a tensor folded the wrong way cannot pass.
SENTENCES, SOURCE, TARGET, BEAMS, WORDS, SIZES = 3, 7, 5, 4, 11, Sizes(13, 11, joint=False)


def _recurrent(cell="lstm", *, bidirectional=True, layers=2, width=6):
    return RecurrentEncoderConfig(cell=cell, layers=layers, width=width, embedding=5, bidirectional=bidirectional)


def _luong(cell="lstm", *, score="general", feeding=True, layers=2, bidirectional=True):
    decoder = LuongConfig(cell=cell, layers=layers, width=6, embedding=7, score=score, input_feeding=feeding)
    return ModelConfig(encoder=_recurrent(cell, bidirectional=bidirectional, layers=layers), decoder=decoder)


def _plain(cell="lstm", *, layers=2, bidirectional=False):
    decoder = RecurrentDecoderConfig(cell=cell, layers=layers, width=6, embedding=7)
    return ModelConfig(encoder=_recurrent(cell, bidirectional=bidirectional, layers=layers), decoder=decoder)


def _bahdanau(cell="gru-original"):
    decoder = BahdanauConfig(cell=cell, width=9, embedding=7, alignment=5, readout=8)
    return ModelConfig(encoder=_recurrent(cell, layers=1), decoder=decoder)


def _transformer(*, norm="pre", tie="none", heads=2, encoder_width=6):
    return ModelConfig(
        tie=tie,
        encoder=TransformerConfig(layers=2, width=encoder_width, heads=heads, feed_forward=10, norm=norm),
        decoder=TransformerConfig(layers=2, width=6, heads=heads, feed_forward=10, norm=norm),
    )


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
    "transformer-pre": _transformer(),
    "transformer-post": _transformer(norm="post"),
    "transformer-tied": _transformer(tie="target", heads=3, encoder_width=12),
    "transformer-encoder-lstm-decoder": ModelConfig(
        encoder=TransformerConfig(layers=1, width=8, heads=2, feed_forward=10),
        decoder=LuongConfig(layers=1, width=6, embedding=7, bridge="tanh"),
    ),
    "lstm-encoder-transformer-decoder": ModelConfig(
        encoder=_recurrent(), decoder=TransformerConfig(layers=1, width=8, heads=2, feed_forward=10)
    ),
}


def build(name: str, *, dtype=torch.float64, seed: int = 0) -> Model:
    """A model of the list in evaluation mode.

    What it says depends on what it reads, not on a bias: otherwise a search that mixes hypotheses up goes unseen.
    """
    model = loud(Model(MODELS[name], sizes=SIZES), dtype=dtype, seed=seed)
    with torch.no_grad():
        model.output.bias.zero_()
    return model


def loud(module: Module, *, dtype=torch.float64, seed: int = 0) -> Module:
    """The module in evaluation mode, with weights large enough that every part of it matters."""
    torch.manual_seed(seed)
    module = module.to(dtype).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.7)
    return module


def source(seed: int = 0, *, sentences: int = SENTENCES) -> Padded:
    """Random source sentences of different length, garbage behind them."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(0, SIZES.source, (sentences, SOURCE), generator=generator)
    lengths = torch.randint(1, SOURCE + 1, (sentences,), generator=generator)
    lengths[0], lengths[-1] = SOURCE, 2
    return Padded(values, lengths)


def target(seed: int = 0, *, rows: int = SENTENCES, size: int = TARGET) -> torch.Tensor:
    """Random target tokens."""
    return torch.randint(0, SIZES.target, (rows, size), generator=torch.Generator().manual_seed(seed + 1))
