"""Sentence vectors of every kind of model: against pooling by hand, and independent of the batch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import FAMILIES
from tests.unit.engine.test_tagger import tagger
from tests.unit.engine.test_text_generator import NETWORKS

from calque.config import check
from calque.engine import SentenceEncoder, TextGenerator, Translator, load, save_sentence_encoder
from calque.engine.sentence_vectors import checked_pooling, stream_vectors
from calque.errors import ConfigError, TextError
from calque.layers.pooling import POOLINGS
from calque.models.language_model import LanguageModel, LanguageModelConfig
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.recurrent import RecurrentEncoderConfig
from calque.models.sentence_encoder import SentenceEncoderConfig, SentenceEncoderModel
from calque.search.settings import SearchConfig
from calque.tasks.embedding import EmbeddingConfig
from calque.tasks.language_modelling import LanguageModellingConfig
from calque.tensors import Padded
from calque.text import BOS, EOS, Tokenizers, TokensConfig, TokensTokenizer

WORDS = [f"w{number}" for number in range(7)]
TEXTS = ["w1 w2", "", "w3 unseen w4 w5 w6", "w0 " * 30, " \t ", "w1", "w2 w1", "w6 " * 30]


def tokenizer(words: list[str] = WORDS) -> TokensTokenizer:
    return TokensTokenizer.train(TokensConfig(), lines=[" ".join(words)])


def spread(model: torch.nn.Module) -> None:
    """Weights so large that every part has an effect."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.5 * torch.randn_like(parameter))


def translator(family: str) -> Translator:
    config = check(ModelConfig, FAMILIES[family], origin="test")
    model = Model(config, sizes=Sizes(11, 11, joint=True)).eval()
    spread(model)
    own = tokenizer()
    return Translator(model, Tokenizers(own, own), config=config, search=SearchConfig())


def generator(network: str) -> TextGenerator:
    config = check(LanguageModelConfig, {"network": NETWORKS[network]}, origin="test")
    model = LanguageModel(config, vocabulary_size=11).eval()
    spread(model)
    return TextGenerator(
        model, tokenizer(), config=config, task=LanguageModellingConfig(), search=SearchConfig(method="sample")
    )


def sentence_encoder(**changes: Any) -> SentenceEncoder:
    encoder = RecurrentEncoderConfig(layers=1, width=6, embedding=5)
    config = SentenceEncoderConfig(**{"encoder": encoder, "pooling": "attention", "projection": 8, **changes})
    model = SentenceEncoderModel(config, sizes=Sizes(11, 6, joint=False)).eval()
    spread(model)
    tokenizers = Tokenizers(tokenizer(), tokenizer(["w1", "w2"]))
    return SentenceEncoder(model, tokenizers, config=config, task=EmbeddingConfig())


MODELS: dict[str, Callable[[], Any]] = {
    **{f"translation, {family}": lambda family=family: translator(family) for family in FAMILIES},
    **{f"language, {network}": lambda network=network: generator(network) for network in NETWORKS},
    "tagger": lambda: tagger(dtype=torch.float32),
    "sentence encoder": sentence_encoder,
}


@pytest.mark.parametrize("name", MODELS)
def test_a_vector_does_not_depend_on_its_batch(name: str) -> None:
    model = MODELS[name]()
    reader = model.vector_reader()
    for pooling in reader.poolings:
        vectors = model.embed(TEXTS, pooling=pooling)
        assert vectors.shape == (len(TEXTS), reader.width) and vectors.dtype == np.float32
        for text, vector in zip(TEXTS, vectors, strict=True):
            assert np.allclose(model.embed(text, pooling=pooling), vector, rtol=0, atol=2e-5)
        for tokens, together in ((1, 1), (70, 3), (4096, 100)):
            stream = stream_vectors(reader, TEXTS, pooling=pooling, batch_tokens=tokens, together=together)
            assert np.allclose([row.values for row in stream], vectors, rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_text_without_words_has_zeros_and_others_have_a_direction(name: str) -> None:
    model = MODELS[name]()
    lengths = np.linalg.norm(model.embed(TEXTS, normalise=True), axis=1)
    assert np.allclose(lengths, [float(bool(text.split())) for text in TEXTS])
    assert model.embed([]).shape == (0, model.vector_reader().width)


@pytest.mark.parametrize("name", MODELS)
def test_only_the_beginning_of_a_long_text_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS[name]()
    reader = model.vector_reader()
    monkeypatch.setattr(reader, "limit", 2)
    pooling = reader.poolings[0]
    long, short = stream_vectors(reader, ["w1 w2 w3 w4", "w1 w2"], pooling=pooling)
    assert long.cut and not short.cut and np.allclose(long.values, short.values, atol=1e-6)


@torch.no_grad()
def test_vectors_are_the_pooled_outputs_of_the_encoder() -> None:
    own = translator("luong")
    ids = torch.tensor([[*own.tokenizers.source.encode("w1 w2 w3"), EOS]])
    memory = own.model.encode(Padded(ids, torch.tensor([4])))
    states = memory.values[0].double().numpy()
    mean = states.mean(axis=0)
    scores = np.exp(states @ mean / states.shape[1] ** 0.5)
    expected = {
        "last": memory.final[0][0, -1].numpy(),
        "mean": mean,
        "attention": (scores[:, None] * states).sum(axis=0) / scores.sum(),
    }
    for pooling in POOLINGS:
        assert np.allclose(own.embed("w1 w2 w3", pooling=pooling), expected[pooling], atol=1e-5), pooling


@pytest.mark.parametrize("family", ["transformer", "convolutional"])
@torch.no_grad()
def test_the_last_vector_of_an_encoder_without_states_is_that_of_the_end_mark(family: str) -> None:
    own = translator(family)
    ids = torch.tensor([[*own.tokenizers.source.encode("w1 w2 w3"), EOS]])
    memory = own.model.encode(Padded(ids, torch.tensor([4])))
    assert np.allclose(own.embed("w1 w2 w3", pooling="last"), memory.values[0, -1].numpy(), atol=1e-5)


@pytest.mark.parametrize("network", NETWORKS)
@torch.no_grad()
def test_a_language_model_gives_its_outputs_after_each_piece(network: str) -> None:
    own = generator(network)
    ids = own.tokenizer.encode("w1 w2 w3")
    state = own.model.start(1)
    outputs = []
    for token in (BOS, *ids):  # one token at a time
        read, state = own.model.read(torch.tensor([[token]]), state)
        outputs.append(read.hidden[0, 0].numpy())
    assert np.allclose(own.embed("w1 w2 w3", pooling="last"), outputs[-1], atol=1e-5)
    assert np.allclose(own.embed("w1 w2 w3"), np.mean(outputs[1:], axis=0), atol=1e-5)


def test_a_folder_gives_back_the_same_vectors(tmp_path: Path) -> None:
    own = sentence_encoder()
    save_sentence_encoder(tmp_path / "model", own, card="")
    loaded = load(tmp_path / "model", device="cpu")
    assert isinstance(loaded, SentenceEncoder) and loaded.has_sides
    for side in ("source", "target"):
        assert np.allclose(loaded.embed(TEXTS, side=side), own.embed(TEXTS, side=side), atol=1e-6)
    assert "recurrent" in repr(loaded) and "vectors of 8" in repr(loaded)


def test_sides_differ_and_the_nearest_are_the_most_similar() -> None:
    own = sentence_encoder()
    assert not np.allclose(own.embed("w1", side="source"), own.embed("w1", side="target"))
    corpus = ["w1", "w2 w1", "w2", "w1 w1"]
    similarity = own.similarity(["w1 w2"], corpus)
    found = own.nearest("w1 w2", corpus, top=3)
    order = sorted(range(4), key=lambda place: -similarity[0, place])[:3]
    assert [neighbour.place for neighbour in found] == order
    assert [neighbour.text for neighbour in found] == [corpus[place] for place in order]
    assert [neighbour.score for neighbour in found] == pytest.approx([similarity[0, place] for place in order])


def test_mistakes_are_named() -> None:
    own, other = sentence_encoder(), translator("plain")
    with pytest.raises(ConfigError, match="trained with 'attention' pooling"):
        own.embed("w1", pooling="mean")
    with pytest.raises(ConfigError, match="not one of last, mean, attention"):
        checked_pooling(other.vector_reader(), "max")
    with pytest.raises(ConfigError, match="side 'left' is not one of source, target"):
        own.embed("w1", side="left")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a string or a list of strings; found 3"):
        other.embed([3])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="did you mean pooling"):
        other.embed("w1", poolin="mean")  # type: ignore[call-arg]
    with pytest.raises(TextError, match="reads the column 'pos'"):
        tagger(inputs=("pos",), dtype=torch.float32).embed("The dog")
    with pytest.raises(TextError, match="lone surrogate"):
        other.embed("\ud800")


def test_an_n_gram_model_has_no_vectors() -> None:
    own = generator("lstm")
    own.config = check(LanguageModelConfig, {"network": {"kind": "ngram"}}, origin="test")
    with pytest.raises(ConfigError, match="an n-gram model has no vectors"):
        own.embed("w1")
