"""Gradients of every encoder and decoder and of their layers against finite differences, in training mode."""

from functools import partial
from typing import Any

import pytest
import torch
from tests.laws.cover import name, pairwise
from tests.laws.slopes import Case, check, unchecked
from torch import Tensor, nn

from calque import models
from calque.layers.attention import AdditiveAttentionConfig, AttentionConfig
from calque.models import convolutional
from calque.models.attentional import AttentionalDecoder
from calque.models.bag_of_words import BagOfWordsEncoderConfig
from calque.models.bahdanau import BahdanauConfig
from calque.models.bridge import Bridge
from calque.models.captioner import CaptionerModel
from calque.models.characters import CharacterEncoder, ConvolutionalCharacters, RecurrentCharacters
from calque.models.cho import ChoConfig
from calque.models.convolutional import (
    ConvolutionalConfig,
    ConvolutionalContext,
    ConvolutionalDecoderConfig,
    ConvolutionalEncoderConfig,
    DecoderLayer,
    PositionedEmbedding,
    PositionedVectors,
)
from calque.models.counted import CountedModel
from calque.models.gnmt import GnmtConfig
from calque.models.hidden_markov import HiddenMarkovTagger
from calque.models.images import GridEncoder, GridInputs, GridStage, ImageInputs, PatchInputs
from calque.models.inputs import FrameInputs, WordInputs
from calque.models.interfaces import Decoder, Encoder, Inputs, Memory, MemoryShape
from calque.models.language_model import (
    CausalBlock,
    LanguageModel,
    RecurrentNetwork,
    TransformerLanguageConfig,
    TransformerNetwork,
)
from calque.models.luong import LuongConfig
from calque.models.model import DecoderConfig, DecoderModel, EncoderConfig, Model, Sizes, build_decoder, build_encoder
from calque.models.ngram import NgramNetwork, NgramOutput
from calque.models.phrase_based import PhraseTables
from calque.models.recogniser import RecogniserModel, Speller
from calque.models.recommender import ItemHistory, RecommenderConfig, RecommenderModel
from calque.models.recurrent import RecurrentDecoderConfig, RecurrentEncoderConfig, WordEmbedding
from calque.models.sentence_encoder import SentenceEncoderConfig, SentenceEncoderModel, Tower
from calque.models.speech_inputs import SpeechInputs
from calque.models.tagger import CrfHead, SoftmaxHead, TaggerModel
from calque.models.time_aware import TimeAwareBlock, TimeAwareConfig, TimeAwareNetwork
from calque.models.transformer import (
    Embedding,
    ProjectedVectors,
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
)
from calque.tensors import Padded

ROWS, SIZE, WIDTH, WORDS, DROPOUT = 2, 3, 4, 5, 0.3
LENGTHS = torch.tensor([SIZE, 2])
MASK = torch.arange(SIZE) < LENGTHS[:, None]
TOKENS = torch.tensor([[1, 4, 1], [3, 0, 2]])
POSITIONS = torch.arange(SIZE).expand(ROWS, -1)
WITHOUT = {
    ImageInputs,  # abstract
    *(CaptionerModel, GridEncoder, GridInputs, GridStage, PatchInputs),  # tests/laws/test_captioners.py, as a whole
    Encoder,  # abstract, as are the next two
    Decoder,
    AttentionalDecoder,
    Model,  # tests/laws/test_gradients.py
    DecoderModel,  # abstract
    NgramNetwork,  # counted, without gradients, as is the next
    NgramOutput,
    HiddenMarkovTagger,  # counted too, as are the next two
    PhraseTables,
    CountedModel,
    Inputs,  # abstract, as is the next
    CharacterEncoder,
    *(
        RecurrentCharacters,
        ConvolutionalCharacters,
        WordInputs,
        FrameInputs,
    ),  # tests/laws/test_taggers.py, as a whole; frames are not
    *(PositionedVectors, ProjectedVectors, TaggerModel, SoftmaxHead, CrfHead),  # tests/laws/test_taggers.py, as a whole
    *(SpeechInputs, RecogniserModel, Speller),  # tests/laws/test_recognisers.py, as a whole
    *(LanguageModel, RecurrentNetwork, TransformerNetwork, CausalBlock),  # test_language_model.py, as a whole
}


# --- Their layers, element by element ---


def bridge(kind: str, *, layers: int) -> Case:
    def call(layer: Bridge, *final: Tensor) -> Any:
        return layer(Memory(final[0], MASK, final[0], TOKENS, final))

    memory = MemoryShape(WIDTH, layers=2, parts=2, inputs=WIDTH, directions=2)
    build = partial(Bridge, kind, cell="lstm", memory=memory, layers=layers, width=WIDTH)
    return Case(build, call, [(ROWS, 2, WIDTH)] * 2)


def attending(layer: DecoderLayer, window: Tensor, embedded: Tensor, keys: Tensor, values: Tensor) -> Any:
    return layer.attend(layer.convolution(window), embedded, ConvolutionalContext(keys, values, MASK))


def embedding(kind: type[nn.Module], config: Any, **options: int) -> Case:
    return Case(lambda: kind(config, vocabulary_size=WORDS), lambda layer: layer(TOKENS, POSITIONS, **options), [])


CONVOLUTIONS = ConvolutionalConfig(width=3, embedding=2, kernel=2, maximum_positions=2, dropout=DROPOUT)
SIDE = TransformerConfig(width=WIDTH, heads=2, positions="learned", maximum_positions=2, dropout=DROPOUT)
LAYERS = {
    "bridge copy": bridge("copy", layers=2),
    "bridge tanh": bridge("tanh", layers=2),
    "bridge tanh, spread": bridge("tanh", layers=3),
    "bridge backward": bridge("backward", layers=1),
    "word embedding": Case(
        partial(WordEmbedding, WORDS, width=WIDTH, dropout=DROPOUT), lambda layer: layer(TOKENS), []
    ),
    "word embedding, types": Case(
        partial(WordEmbedding, WORDS, width=WIDTH, dropout=DROPOUT, type_dropout=DROPOUT),
        lambda layer: layer(TOKENS),
        [],
    ),
    "embedding": embedding(Embedding, SIDE, size=SIZE),
    "positioned embedding": embedding(PositionedEmbedding, CONVOLUTIONS),
    "convolutional layer": Case(  # two hypotheses per sentence
        lambda: DecoderLayer(CONVOLUTIONS), attending, [(2 * ROWS, 3, 3), (2 * ROWS, 2, 2), *[(ROWS, SIZE, 2)] * 2]
    ),
}


@pytest.mark.parametrize("case", LAYERS)
def test_of_a_layer(case: str) -> None:
    check(LAYERS[case])


# --- Encoders and decoders, along one direction per tensor ---


def encoder(config: EncoderConfig) -> Case:
    return Case(partial(build_encoder, config, vocabulary_size=WORDS), lambda layer: layer(Padded(TOKENS, LENGTHS)), [])


def decoder(config: DecoderConfig) -> Case:
    """Reads a token, then two more, from the memory of a bidirectional LSTM of two layers."""

    def call(layer: Decoder[Any, Any], values: Tensor, inputs: Tensor, *final: Tensor) -> Any:
        context = layer.prepare(Memory(values, MASK, inputs, TOKENS, final))
        first, state = layer(TOKENS[:, :1], layer.start(context), context, attention=True)
        return first, layer(TOKENS[:, 1:], state, context, attention=True)

    memory = MemoryShape(WIDTH, layers=2, parts=2, inputs=WIDTH, directions=2)
    build = partial(build_decoder, config, vocabulary_size=WORDS, memory=memory)
    return Case(build, call, [(ROWS, SIZE, WIDTH)] * 2 + [(ROWS, 2, WIDTH)] * 2)


RECURRENT = {"width": WIDTH, "embedding": 3, "dropout": DROPOUT}
STACK = {"layers": 2, "noise": 0.1, **RECURRENT}
BLOCKS = {"layers": 2, "width": WIDTH, "dropout": DROPOUT, "attention_dropout": DROPOUT, "activation_dropout": DROPOUT}
HEADS = {"heads": 2, "feed_forward": 3, **BLOCKS}
CONVOLVED = {"layers": 2, "width": 3, "embedding": WIDTH, "dropout": DROPOUT}
READ = pairwise(
    {
        "cell": ["rnn", "rnn-relu", "lstm", "gru", "gru-original"],
        "bidirectional": [True, False, "first"],
        "reverse": [False, True],
        "variational": [False, True],
        "layer_norm": [False, True],
        "weight_dropout": [0.0, DROPOUT],
    }
)
TRANSFORMED = {
    "rotary": {"positions": "rotary", "key_value_heads": 1},
    "relative": {"positions": "relative", "relative_reach": 1, "norm": "post"},
    "rms": {"normalisation": "rms", "activation": "swiglu"},
}
HARD = AttentionConfig(choice="hard", reach="local-p", window=2, gated=True, coverage=True)
ADDITIVE = AdditiveAttentionConfig(alignment=3, coverage=True)


def sentence_encoder(pooling: str, *, joint: bool) -> Case:
    """Vectors of both sides, from one encoder or from two."""
    config = SentenceEncoderConfig(
        pooling=pooling, projection=3, dropout=DROPOUT, encoder=RecurrentEncoderConfig(**STACK)
    )

    def call(layer: SentenceEncoderModel) -> Any:
        sentences = Padded(TOKENS, LENGTHS)
        return layer.encode(sentences, "source"), layer.encode(sentences, "target")

    return Case(partial(SentenceEncoderModel, config, sizes=Sizes(WORDS, WORDS, joint)), call, [])


def tower() -> Case:
    config = SentenceEncoderConfig(normalise=False, encoder=BagOfWordsEncoderConfig(**RECURRENT))
    build = partial(Tower, config, vocabulary_size=WORDS)
    return Case(build, lambda layer: layer(Padded(TOKENS, LENGTHS)), [])


EVENTS: dict[str, Any] = {
    "times": torch.tensor([[1, 5, 90], [3, 4, 0]]),
    "asked": torch.tensor([[5, 90, 91], [4, 70, 0]]),
    "behaviours": torch.tensor([[0, 1, 1], [1, 0, 0]]),
}
TIMED = TimeAwareConfig(layers=1, width=WIDTH, heads=2, feed_forward=3, buckets=3, dropout=DROPOUT)


def time_aware() -> Case:
    build = partial(TimeAwareNetwork, TIMED, vocabulary_size=WORDS, behaviours=2)
    return Case(build, lambda layer: layer(TOKENS, **EVENTS), [])


def recommender(network: Any) -> Case:
    """The loss of all items, and the scores of the next one."""
    history = ItemHistory(TOKENS, LENGTHS, **EVENTS)

    def call(layer: RecommenderModel) -> Any:
        hidden = layer(history)
        return layer.total_loss(hidden, history, torch.tensor([[4, 1, 2], [1, 4, 0]])), hidden

    config = RecommenderConfig(network=network)
    return Case(partial(RecommenderModel, config, vocabulary_size=WORDS, behaviours=2), call, [])


SIDES = {
    "sentence encoder": sentence_encoder("attention", joint=True),
    "sentence encoders": sentence_encoder("last", joint=False),
    "tower": tower(),
    "time-aware network": time_aware(),
    "time-aware block": Case(
        partial(TimeAwareBlock, TIMED),
        lambda layer, stream: layer(stream, torch.arange(SIZE).expand(ROWS, SIZE, -1)),
        [(ROWS, SIZE, WIDTH)],
    ),
    "recommender": recommender(TransformerLanguageConfig(**HEADS)),
    "recommender, times": recommender(TIMED),
    **{
        f"encoder {name(options)}": encoder(RecurrentEncoderConfig(**{**STACK, "width": 8}, **options))
        for options in READ
    },
    "encoder mean": encoder(BagOfWordsEncoderConfig(**RECURRENT)),
    "encoder convolutional": encoder(ConvolutionalEncoderConfig(kernel=3, **CONVOLVED)),
    **{f"encoder {key}": encoder(TransformerEncoderConfig(**HEADS, **options)) for key, options in TRANSFORMED.items()},
    "decoder recurrent": decoder(RecurrentDecoderConfig(**STACK)),
    "decoder recurrent, variational": decoder(RecurrentDecoderConfig(variational=True, bridge="tanh", **STACK)),
    "decoder recurrent, weights": decoder(RecurrentDecoderConfig(weight_dropout=DROPOUT, **STACK)),
    "decoder luong, weights": decoder(LuongConfig(weight_dropout=DROPOUT, **STACK)),
    "decoder cho": decoder(ChoConfig(readout=3, **RECURRENT)),
    "decoder luong": decoder(LuongConfig(copies=True, variational=True, connection="dense", **STACK)),
    "decoder luong, not fed": decoder(LuongConfig(cell="gru", input_feeding=False, layer_norm=True, **STACK)),
    "decoder luong, hard": decoder(LuongConfig(attention=HARD, **STACK)),
    "decoder bahdanau": decoder(BahdanauConfig(attention=ADDITIVE, readout=3, copies=True, **RECURRENT)),
    "decoder gnmt": decoder(GnmtConfig(layers=2, connection="highway", attention=ADDITIVE, **RECURRENT)),
    "decoder convolutional": decoder(ConvolutionalDecoderConfig(kernel=2, **CONVOLVED)),
    **{f"decoder {key}": decoder(TransformerDecoderConfig(**HEADS, **options)) for key, options in TRANSFORMED.items()},
    "decoder ssru": decoder(TransformerDecoderConfig(mixer="ssru", copies=True, attention_layer=1, **HEADS)),
    "decoder average": decoder(TransformerDecoderConfig(mixer="average", **HEADS)),
}


@pytest.mark.parametrize("case", SIDES)
def test_of_a_side(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the gradient scaling of ConvS2S."""
    monkeypatch.setattr(convolutional, "scale_gradient", lambda values, scale: values)  # noqa: ARG005
    check(SIDES[case], fast=True)


def test_every_encoder_decoder_and_layer_has_its_gradients_checked() -> None:
    assert unchecked(models, cases=[*LAYERS.values(), *SIDES.values()], without=WITHOUT) == set()
