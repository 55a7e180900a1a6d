"""The list of all captioners, which every law of captioning is tested on."""

import torch

from calque.layers.attention import AdditiveAttentionConfig
from calque.models.bahdanau import BahdanauConfig
from calque.models.captioner import CaptionerConfig, CaptionerModel, NoEncoderConfig
from calque.models.cho import ChoConfig
from calque.models.convolutional import ConvolutionalDecoderConfig
from calque.models.gnmt import GnmtConfig
from calque.models.images import GridConfig, PatchesConfig
from calque.models.luong import LuongConfig
from calque.models.recurrent import RecurrentDecoderConfig
from calque.models.transformer import TransformerDecoderConfig, TransformerEncoderConfig
from calque.tensors import Padded
from tests.laws.models import loud

# Sizes are pairwise coprime, so that a tensor reshaped the wrong way fails; 3 × 3 positions.
IMAGES, SIZE, TOKENS, VOCABULARY = 2, 12, 5, 11

IMAGE_LAYERS = {
    "grid": GridConfig(stages=2, width=14),
    "plain grid": GridConfig(stages=2, width=14, normalisation="none", positions="none"),
    "patches": PatchesConfig(patch=4, width=14),
    "plain patches": PatchesConfig(patch=4, width=14, positions="none"),
}
ENCODERS = {
    "none": NoEncoderConfig(),
    "transformer": TransformerEncoderConfig(layers=1, width=14, heads=1, feed_forward=6),
}
DECODERS = {
    "soft": BahdanauConfig(
        cell="lstm",
        width=6,
        embedding=4,
        readout=5,
        bridge="tanh",
        attention=AdditiveAttentionConfig(alignment=7, gated=True),
    ),
    "hard": BahdanauConfig(
        cell="lstm",
        width=6,
        embedding=4,
        readout=5,
        bridge="tanh",
        attention=AdditiveAttentionConfig(alignment=7, choice="hard"),
    ),
    "luong": LuongConfig(layers=1, width=6, embedding=4, bridge="tanh"),
    "gnmt": GnmtConfig(layers=2, width=6, embedding=4, bridge="tanh"),
    "transformer": TransformerDecoderConfig(layers=2, width=8, heads=2, feed_forward=10),
    "convolutional": ConvolutionalDecoderConfig(layers=2, width=6, embedding=14),
    "recurrent": RecurrentDecoderConfig(layers=1, width=6, embedding=4, bridge="tanh"),
    "cho": ChoConfig(width=6, embedding=4, readout=5),
}
CAPTIONERS: dict[str, CaptionerConfig] = {
    f"{image}, {encoder}, {decoder}": CaptionerConfig(
        image=IMAGE_LAYERS[image], encoder=ENCODERS[encoder], decoder=DECODERS[decoder]
    )
    for image in IMAGE_LAYERS
    for encoder in ENCODERS
    for decoder in DECODERS
    if (image == "grid" and encoder == "none") or decoder == "soft" or (encoder, decoder) == ("transformer",) * 2
}


def build(name: str) -> CaptionerModel:
    """A captioner of the list in evaluation mode and float64, with weights so large that every part has an effect."""
    torch.manual_seed(0)
    return loud(CaptionerModel(CAPTIONERS[name], vocabulary_size=VOCABULARY)).eval()


def images(count: int = IMAGES, *, seed: int = 0) -> Padded:
    """Random images."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(0, 256, (count, SIZE, SIZE, 3), generator=generator, dtype=torch.uint8)
    return Padded(values, torch.full((count,), 9))


def captions(count: int = IMAGES, *, seed: int = 1) -> torch.Tensor:
    """Random tokens."""
    return torch.randint(4, VOCABULARY, (count, TOKENS), generator=torch.Generator().manual_seed(seed))
