"""The list of all recognisers, which every law of recognition is tested on."""

from itertools import product

import torch

from calque.layers.attention import AttentionConfig
from calque.layers.spec_augment import SpecAugmentConfig
from calque.models.bahdanau import BahdanauConfig
from calque.models.convolutional import ConvolutionalDecoderConfig, ConvolutionalEncoderConfig
from calque.models.gnmt import GnmtConfig
from calque.models.luong import LuongConfig
from calque.models.recogniser import RecogniserConfig, RecogniserModel, RecogniserSizes
from calque.models.recurrent import RecurrentEncoderConfig
from calque.models.speech_inputs import SubsamplingConfig
from calque.models.transformer import TransformerDecoderConfig, TransformerEncoderConfig
from calque.tensors import Padded

# Sizes are pairwise coprime, so that a tensor reshaped the wrong way fails.
ROWS, TOKENS, SIZES = 3, 5, RecogniserSizes(vocabulary=11, rate=8000)
SAMPLES = (1703, 760, 83)  # 22, 10 and 2 frames

ENCODERS = {
    "lstm": RecurrentEncoderConfig(layers=2, width=6, embedding=8),
    "gru": RecurrentEncoderConfig(cell="gru-original", layers=1, width=6, embedding=8, bidirectional=False),
    "transformer": TransformerEncoderConfig(layers=2, width=8, heads=2, feed_forward=16),
    "rotary": TransformerEncoderConfig(layers=1, width=8, heads=2, feed_forward=16, positions="rotary"),
    "convolutional": ConvolutionalEncoderConfig(layers=2, width=6, embedding=8),
}
DECODERS = {
    "luong": LuongConfig(layers=1, width=6, embedding=4, bridge="zero"),
    "local": LuongConfig(layers=1, width=6, embedding=4, bridge="zero", attention=AttentionConfig(reach="local-p")),
    "bahdanau": BahdanauConfig(width=6, embedding=4, readout=5, bridge="tanh"),
    "gnmt": GnmtConfig(layers=2, width=6, embedding=4, bridge="zero"),
    "transformer": TransformerDecoderConfig(layers=1, width=8, heads=2, feed_forward=16),
    "convolutional": ConvolutionalDecoderConfig(layers=1, width=6, embedding=8),
}
QUIET = SpecAugmentConfig(frequency_masks=0, time_masks=0)
PLAIN = {"features": 9, "dropout": 0.0, "augmentation": QUIET}

RECOGNISERS: dict[str, RecogniserConfig] = {
    f"{encoder}-ctc-{layers}": RecogniserConfig(
        head="ctc",
        encoder=ENCODERS[encoder],
        subsampling=SubsamplingConfig(layers=layers, channels=3, dropout=0.0),
        **PLAIN,
    )
    for encoder, layers in product(ENCODERS, (0, 1, 2))
    if encoder == "lstm" or layers == 1
}
RECOGNISERS |= {
    f"{encoder}-{head}-{decoder}": RecogniserConfig(
        head=head,
        encoder=ENCODERS[encoder],
        decoder=DECODERS[decoder],
        normalise={"bahdanau": "none", "gnmt": "peak"}.get(decoder, "utterance"),
        cepstrum=4 if decoder == "gnmt" else 0,
        subsampling=SubsamplingConfig(layers=1, channels=3, dropout=0.0),
        **PLAIN,
    )
    for encoder, head, decoder in (
        ("lstm", "attention", "luong"),
        ("lstm", "hybrid", "luong"),
        ("gru", "hybrid", "local"),
        ("lstm", "attention", "bahdanau"),
        ("lstm", "attention", "gnmt"),
        ("transformer", "hybrid", "transformer"),
        ("convolutional", "attention", "convolutional"),
    )
}


def build(name: str, *, seed: int = 0) -> RecogniserModel:
    """A recogniser of the list in evaluation mode and float64, with weights large enough that every part matters."""
    torch.manual_seed(seed)
    model = RecogniserModel(RECOGNISERS[name], sizes=SIZES).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
    return model


def audio(seed: int = 0) -> Padded:
    """Random recordings of different length, whose padding is random too."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(-9000, 9000, (ROWS, max(SAMPLES) + 100), generator=generator)
    return Padded(values.to(torch.int16), torch.tensor(SAMPLES))


def targets(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs and outputs [B,T] of a decoder, and the lengths of the texts; they fit their recordings."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([4, 2, 0])
    outputs = torch.zeros(ROWS, TOKENS, dtype=torch.long)
    for row, length in enumerate(lengths.tolist()):
        outputs[row, :length] = 4 + torch.randperm(SIZES.vocabulary - 4, generator=generator)[:length]
        outputs[row, length] = 2
    inputs = torch.cat([torch.ones(ROWS, 1, dtype=torch.long), outputs[:, :-1]], dim=1)
    return inputs, outputs, lengths
