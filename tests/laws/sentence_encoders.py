"""The list of all sentence encoders, which every law of sentence vectors is tested on."""

from itertools import product

import torch

from calque.layers.pooling import POOLINGS
from calque.models.model import Sizes
from calque.models.sentence_encoder import SentenceEncoderConfig, SentenceEncoderModel
from calque.tensors import Padded
from tests.laws.taggers import ENCODERS

# Sizes are pairwise coprime, so that a tensor reshaped the wrong way fails.
SENTENCES, PIECES, SIZES, VECTOR = 3, 7, Sizes(13, 11, joint=False), 5

SENTENCE_ENCODERS: dict[str, SentenceEncoderConfig] = {
    f"{encoder}-{pooling}": SentenceEncoderConfig(
        pooling=pooling, encoder=ENCODERS[encoder], projection=VECTOR if pooling != "last" else None
    )
    for encoder, pooling in product(ENCODERS, POOLINGS)
} | {
    "shared": SentenceEncoderConfig(sides="shared", encoder=ENCODERS["lstm"], projection=VECTOR),
    "unnormalised": SentenceEncoderConfig(normalise=False, encoder=ENCODERS["transformer"], projection=VECTOR),
}


def build(name: str, *, seed: int = 0) -> SentenceEncoderModel:
    """An encoder of the list in evaluation mode and float64, with weights large enough that all parts have effects."""
    torch.manual_seed(seed)
    sizes = SIZES if name != "shared" else Sizes(13, 13, joint=True)
    model = SentenceEncoderModel(SENTENCE_ENCODERS[name], sizes=sizes).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.7)
    return model


def sentences(seed: int = 0) -> Padded:
    """Random sentences of different length, whose padding is random too."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, SIZES.target, (SENTENCES, PIECES), generator=generator)
    return Padded(ids, torch.tensor([PIECES, 4, 2]))
