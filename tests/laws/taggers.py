"""The list of all taggers, which every law of tagging is tested on."""

from itertools import product

import torch

from calque.layers.crf import LinearChainCRF
from calque.models.bag_of_words import BagOfWordsEncoderConfig
from calque.models.characters import ConvolutionalCharactersConfig, NoCharactersConfig, RecurrentCharactersConfig
from calque.models.convolutional import ConvolutionalEncoderConfig
from calque.models.hidden_markov import HiddenMarkovConfig, HiddenMarkovTagger
from calque.models.inputs import Words
from calque.models.recurrent import RecurrentEncoderConfig
from calque.models.tagger import TaggerConfig, TaggerModel, TaggerSizes
from calque.models.transformer import TransformerEncoderConfig

# Sizes are pairwise coprime, so that a tensor reshaped the wrong way fails.
SENTENCES, WORDS, CHARACTERS, SIZES = 3, 7, 4, TaggerSizes(13, 5, 11, {"pos": 9})

ENCODERS = {
    "lstm": RecurrentEncoderConfig(layers=2, width=6, embedding=8),
    "gru": RecurrentEncoderConfig(cell="gru-original", layers=1, width=6, embedding=8, reverse=True),
    "transformer": TransformerEncoderConfig(layers=2, width=8, heads=2, feed_forward=16),
    "rotary": TransformerEncoderConfig(layers=1, width=8, heads=2, feed_forward=16, positions="rotary"),
    "convolutional": ConvolutionalEncoderConfig(layers=2, width=6, embedding=8),
    "mean": BagOfWordsEncoderConfig(width=6, embedding=8),
}
CHARACTER_ENCODERS = {
    "words": NoCharactersConfig(),
    "spelled": RecurrentCharactersConfig(embedding=3, width=4),
    "filtered": ConvolutionalCharactersConfig(embedding=3, width=5),
    "even": ConvolutionalCharactersConfig(embedding=3, width=5, kernel=2),
}
TAGGERS: dict[str, TaggerConfig] = {
    f"{encoder}-{characters}-{head}": TaggerConfig(
        head=head, encoder=ENCODERS[encoder], characters=CHARACTER_ENCODERS[characters], column_width=2
    )
    for encoder, characters, head in product(ENCODERS, CHARACTER_ENCODERS, ("softmax", "crf"))
    if encoder == "lstm" or characters == "spelled"
}


ESTIMATED: dict[str, HiddenMarkovConfig] = {
    f"hidden-markov-{order}{'-capitals' * capitals}": HiddenMarkovConfig(order=order, capitals=capitals, suffix=2)
    for order, capitals in product((1, 2, 3), (False, True))
}
"""Those that are estimated; they have no gradients."""


def build(name: str, *, seed: int = 0) -> TaggerModel | HiddenMarkovTagger:
    """A tagger of the list in evaluation mode and float64, with weights large enough that every part has an effect."""
    torch.manual_seed(seed)
    if name in ESTIMATED:
        return _estimated(ESTIMATED[name])
    model = TaggerModel(TAGGERS[name], sizes=SIZES).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.7)
    return model


def _estimated(config: HiddenMarkovConfig) -> HiddenMarkovTagger:
    """A hidden Markov tagger with random probabilities, some upper-case characters, and a tree of random suffixes."""
    model = HiddenMarkovTagger(config, sizes=SIZES).double().eval()
    parents = torch.arange(model.kinds)
    keys = (parents[:, None] * SIZES.characters + torch.randperm(SIZES.characters)[:5].sort().values).flatten()
    deeper = (model.kinds + torch.arange(0, len(keys), 2)) * SIZES.characters + 4
    sizes = {name: table.shape for name, table in model.named_parameters()}
    sizes["suffixes"] = torch.Size([model.kinds + len(keys) + len(deeper), SIZES.labels])
    tables = {name: torch.rand(size, dtype=torch.float64) + 0.05 for name, size in sizes.items()}
    shares = {name: table / table.sum(dim=-1, keepdim=True) for name, table in tables.items() if table.dim()}
    model.fill({**shares, "suffix_keys": torch.cat([keys, deeper]), "is_upper": torch.rand(SIZES.characters) < 0.5})
    assert model.fault() is None
    return model


def source(seed: int = 0) -> Words:
    """Random sentences of different length, whose padding is random too."""
    generator = torch.Generator().manual_seed(seed)

    def ids(size: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, size, shape, generator=generator)

    lengths = torch.tensor([WORDS, 4, 2])
    return Words(
        ids(SIZES.words, SENTENCES, WORDS),
        lengths,
        ids(SIZES.characters, SENTENCES, WORDS, CHARACTERS),
        1 + ids(CHARACTERS, SENTENCES, WORDS),
        (ids(SIZES.columns["pos"], SENTENCES, WORDS),),
    )


def select(words: Words, rows: list[int], *, size: int | None = None) -> Words:
    """Some rows of sentences, cut to `size` words."""
    width = size or words.words.shape[1]
    assert words.characters is not None and words.word_lengths is not None
    return Words(
        words.words[rows, :width],
        words.lengths[rows],
        words.characters[rows, :width],
        words.word_lengths[rows, :width],
        tuple(column[rows, :width] for column in words.columns),
    )


def crf(model: TaggerModel) -> LinearChainCRF | None:
    return getattr(model.head, "crf", None)
