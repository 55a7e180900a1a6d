"""Convolutions on both sides or on one, and the bag-of-words encoder."""

from calque.models.bag_of_words import BagOfWordsEncoderConfig
from calque.models.convolutional import ConvolutionalDecoderConfig, ConvolutionalEncoderConfig
from calque.models.luong import LuongConfig
from calque.models.model import ModelConfig
from calque.models.recurrent import RecurrentDecoderConfig, RecurrentEncoderConfig
from calque.models.transformer import TransformerEncoderConfig


def _encoder(*, kernel=3, layers=2, positions=1024):
    return ConvolutionalEncoderConfig(layers=layers, width=8, embedding=6, kernel=kernel, maximum_positions=positions)


def _decoder(*, kernel=3, layers=2, positions=1024):
    return ConvolutionalDecoderConfig(layers=layers, width=5, embedding=6, kernel=kernel, maximum_positions=positions)


_RECURRENT = RecurrentDecoderConfig(layers=1, width=9, embedding=7, bridge="tanh")
_LUONG = LuongConfig(layers=1, width=9, embedding=7, bridge="tanh")

MODELS: dict[str, ModelConfig] = {
    "conv": ModelConfig(encoder=_encoder(), decoder=_decoder()),
    "conv-kernel-1": ModelConfig(encoder=_encoder(kernel=1), decoder=_decoder(kernel=1)),
    "conv-kernel-5-2-tied": ModelConfig(
        tie="target", encoder=_encoder(kernel=5, layers=1), decoder=_decoder(kernel=2, layers=3)
    ),
    "conv-kernel-5-beyond-its-positions": ModelConfig(
        encoder=_encoder(layers=3, positions=4), decoder=_decoder(kernel=5, layers=1, positions=3)
    ),
    "conv-encoder-luong-decoder": ModelConfig(encoder=_encoder(layers=1), decoder=_LUONG),
    "conv-encoder-lstm-decoder": ModelConfig(encoder=_encoder(kernel=5), decoder=_RECURRENT),
    "lstm-encoder-conv-decoder": ModelConfig(
        encoder=RecurrentEncoderConfig(layers=1, width=6, embedding=6), decoder=_decoder()
    ),
    "transformer-encoder-conv-decoder": ModelConfig(
        encoder=TransformerEncoderConfig(layers=1, width=6, heads=2, feed_forward=10), decoder=_decoder(kernel=2)
    ),
    "mean-encoder-lstm-decoder": ModelConfig(encoder=BagOfWordsEncoderConfig(width=8, embedding=5), decoder=_RECURRENT),
    "mean-encoder-luong-decoder": ModelConfig(encoder=BagOfWordsEncoderConfig(width=8, embedding=5), decoder=_LUONG),
}
