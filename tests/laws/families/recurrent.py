"""Recurrent encoders and decoders without attention."""

from calque.models.cho import ChoConfig
from calque.models.model import ModelConfig
from calque.models.recurrent import RecurrentDecoderConfig, RecurrentEncoderConfig
from tests.laws.cover import name, pairwise


def encoder(cell="lstm", *, layers=2, width=6, **options):
    return RecurrentEncoderConfig(cell=cell, layers=layers, width=width, embedding=5, **options)


def _plain(cell="lstm", *, layers=2, bidirectional=False, reverse=False, bridge="copy", **options):
    """The options apply to both sides."""
    decoder = RecurrentDecoderConfig(cell=cell, layers=layers, width=6, embedding=7, bridge=bridge, **options)
    source_encoder = encoder(cell, layers=layers, bidirectional=bidirectional, reverse=reverse, **options)
    return ModelConfig(encoder=source_encoder, decoder=decoder)


def _cho(cell="gru-original", **options):
    decoder = ChoConfig(width=9, embedding=7, readout=8)
    return ModelConfig(encoder=encoder(cell, layers=1, bidirectional=False, **options), decoder=decoder)


def _read(choice):
    """A single layer has no connections, and is its own first layer.

    Three layers are used rather than two: with two, the upper connection would not affect the final state.
    """
    if choice["layers"] > 1:
        return choice
    return None if choice["bidirectional"] == "first" else {key: choice[key] for key in choice if key != "connection"}


# The other bridges do not use the encoder, or only half of its top layer: see tests/laws/test_fidelity.py.
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
} | {f"plain {name(choice)}": _plain(**choice) for choice in pairwise(OPTIONS, read=_read)}
