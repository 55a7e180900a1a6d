"""Recurrent encoders and decoders without attention."""

from calque.models.cho import ChoConfig
from calque.models.model import ModelConfig
from calque.models.recurrent import RecurrentDecoderConfig, RecurrentEncoderConfig
from tests.laws.cover import name, pairwise


def encoder(cell="lstm", *, layers=2, width=6, **options):
    return RecurrentEncoderConfig(cell=cell, layers=layers, width=width, embedding=5, **options)


def _plain(cell="lstm", *, layers=2, bidirectional=False, reverse=False, bridge="copy", **options):
    """The options are those of both sides."""
    decoder = RecurrentDecoderConfig(cell=cell, layers=layers, width=6, embedding=7, bridge=bridge, **options)
    reading = encoder(cell, layers=layers, bidirectional=bidirectional, reverse=reverse, **options)
    return ModelConfig(encoder=reading, decoder=decoder)


def _cho(cell="gru-original", **options):
    decoder = ChoConfig(width=9, embedding=7, readout=8)
    return ModelConfig(encoder=encoder(cell, layers=1, bidirectional=False, **options), decoder=decoder)


def _read(choice):
    """One layer has nothing to connect, and its first layer is all of them.

    Three have, whatever the decoder sees of them: with two, what connects the upper one would not reach its last state.
    """
    if choice["layers"] > 1:
        return choice
    return None if choice["bidirectional"] == "first" else {key: choice[key] for key in choice if key != "connection"}


# The other bridges leave the encoder idle, or half of its top layer: tests/laws/test_fidelity.py has them.
OPTIONS = {
    "cell": ["rnn", "rnn-relu", "lstm", "gru", "gru-original"],
    "connection": ["none", "residual", "dense", "highway"],
    "bidirectional": [False, "first", True],
    "layers": [1, 3],
    "layer_norm": [False, True],
    "reverse": [False, True],
    "bridge": ["copy", "tanh"],
}
MODELS: dict[str, ModelConfig] = {
    "rnn": _plain("rnn"),
    "lstm": _plain("lstm"),
    "gru": _plain("gru", layers=3),
    "gru-original-bidirectional": _plain("gru-original", bidirectional=True, layers=1),
    "cho": _cho(),
    "cho-lstm-reversed": _cho("lstm", reverse=True),
} | {f"plain {name(each)}": _plain(**each) for each in pairwise(OPTIONS, read=_read)}
