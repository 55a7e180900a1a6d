"""Named systems: model configs named after a paper or after a size of our own, which can be scaled up or down."""

import difflib
from typing import Any, NamedTuple

from calque.config import check, to_values
from calque.errors import ConfigError
from calque.layers.attention import AdditiveAttentionConfig, AttentionConfig
from calque.layers.negatives import NegativesOutputConfig
from calque.models.bag_of_words import BagOfWordsEncoderConfig
from calque.models.bahdanau import BahdanauConfig
from calque.models.captioner import CaptionerConfig
from calque.models.characters import ConvolutionalCharactersConfig, RecurrentCharactersConfig
from calque.models.cho import ChoConfig
from calque.models.convolutional import ConvolutionalDecoderConfig, ConvolutionalEncoderConfig
from calque.models.gnmt import GnmtConfig
from calque.models.hidden_markov import HiddenMarkovConfig
from calque.models.images import GridConfig, PatchesConfig
from calque.models.language_model import LanguageModelConfig, RecurrentLanguageConfig, TransformerLanguageConfig
from calque.models.luong import LuongConfig
from calque.models.model import ModelConfig
from calque.models.ngram import NgramLanguageConfig
from calque.models.phrase_based import PhraseBasedConfig, PhraseSearchConfig, PhraseTuningConfig
from calque.models.recogniser import RecogniserConfig
from calque.models.recommender import PopularityConfig, RecommenderConfig
from calque.models.recurrent import RecurrentDecoderConfig, RecurrentEncoderConfig
from calque.models.sentence_encoder import SentenceEncoderConfig
from calque.models.speech_inputs import SubsamplingConfig
from calque.models.tagger import TaggerConfig
from calque.models.time_aware import TimeAwareConfig
from calque.models.transformer import TransformerDecoderConfig, TransformerEncoderConfig

AnyModelConfig = (
    ModelConfig
    | LanguageModelConfig
    | TaggerConfig
    | PhraseBasedConfig
    | SentenceEncoderConfig
    | RecommenderConfig
    | RecogniserConfig
    | HiddenMarkovConfig
    | CaptionerConfig
)


class System(NamedTuple):
    """A model config that can be trained by name."""

    model: AnyModelConfig
    summary: str
    paper: str
    departures: str = ""  # how it differs from the paper


def _transformer(*, layers: int, width: int, feed_forward: int, heads: int, **options: Any) -> ModelConfig:
    side = {"layers": layers, "width": width, "feed_forward": feed_forward, "heads": heads, **options}
    return ModelConfig(tie="auto", encoder=TransformerEncoderConfig(**side), decoder=TransformerDecoderConfig(**side))


def _luong(**attention: Any) -> ModelConfig:
    sizes: dict[str, Any] = {"layers": 4, "width": 1000, "embedding": 1000}
    return ModelConfig(
        spread=0.1,
        encoder=RecurrentEncoderConfig(**sizes, bidirectional=False, reverse=True),
        decoder=LuongConfig(**sizes, attention=AttentionConfig(**attention)),
    )


SUBWORDS = "subwords instead of words"
BIASED = f"{SUBWORDS}; the output layer has a bias"
DRAWN = "weights have PyTorch's default initialisation, not an orthogonal or Gaussian one"

_HALVES = "sines and cosines are not interleaved; the attention projections and the output layer have biases"

TRANSLATORS: dict[str, System] = {
    "cho2014": System(
        ModelConfig(
            encoder=RecurrentEncoderConfig(
                cell="gru-original", layers=1, width=1000, embedding=100, bidirectional=False, dropout=0.0
            ),
            decoder=ChoConfig(width=1000, embedding=100, readout=500, dropout=0.0),
        ),
        "GRU of 1,000, reads one summary vector of the source at every step, maxout readout of 500",
        "Cho et al. 2014, §2, §4.1, A.1",
        f"{SUBWORDS}; the output matrix is not factored to rank 100; {DRAWN}",
    ),
    "sutskever2014": System(
        ModelConfig(
            spread=0.08,
            encoder=RecurrentEncoderConfig(
                layers=4, width=1000, embedding=1000, bidirectional=False, reverse=True, dropout=0.0
            ),
            decoder=RecurrentDecoderConfig(layers=4, width=1000, embedding=1000, dropout=0.0),
        ),
        "LSTM, 4 layers of 1,000, reversed source, passed to the decoder as its initial state only",
        "Sutskever et al. 2014, §2, §3.3, §3.4",
        BIASED,
    ),
    "bahdanau2015": System(
        ModelConfig(
            encoder=RecurrentEncoderConfig(
                cell="gru-original", layers=1, width=2000, embedding=620, bidirectional=True, dropout=0.0
            ),
            decoder=BahdanauConfig(
                width=1000, embedding=620, readout=500, dropout=0.0, attention=AdditiveAttentionConfig(alignment=1000)
            ),
        ),
        "GRU of 1,000 in each direction, additive attention, maxout readout of 500",
        "Bahdanau et al. 2015, §3, A.1, A.2",
        f"{SUBWORDS}; {DRAWN}",
    ),
    "luong2015": System(
        _luong(),
        "LSTM, 4 layers of 1,000, global attention (general), input feeding, reversed source",
        "Luong et al. 2015, §3.1, §3.3, §4.1",
        BIASED,
    ),
    "luong2015-local-m": System(
        _luong(reach="local-m"),
        "luong2015 with attention to 21 positions around the current one",
        "Luong et al. 2015, §3.2",
        f"{BIASED}; beyond the source's end the window stays at its last word",
    ),
    "luong2015-local-p": System(
        _luong(reach="local-p"),
        "luong2015 with attention to 21 positions around a predicted one",
        "Luong et al. 2015, §3.2, eq. 9, 10",
        BIASED,
    ),
    "luong2015-hard": System(
        _luong(choice="hard"),
        "luong2015 with attention to one position, sampled in training",
        "Luong et al. 2015; Xu et al. 2015, §4.1",
        f"{BIASED}; a sample's reward is the log-likelihood of its own word, not of the whole sentence",
    ),
    "gnmt2016": System(
        ModelConfig(
            spread=0.04,
            encoder=RecurrentEncoderConfig(
                layers=8, width=1024, embedding=1024, bidirectional="first", connection="residual"
            ),
            decoder=GnmtConfig(layers=8, width=1024, embedding=1024, attention=AdditiveAttentionConfig(alignment=1024)),
        ),
        "LSTM, 8+8 layers of 1,024 with residual connections, attention from the bottom decoder layer",
        "Wu et al. 2016, §3",
        "residual connections from the second layer on, not the third; the two directions of the first encoder layer "
        "have half the width each",
    ),
    "gehring2017": System(
        ModelConfig(
            encoder=ConvolutionalEncoderConfig(layers=20, width=512, embedding=512, kernel=3),
            decoder=ConvolutionalDecoderConfig(layers=20, width=512, embedding=512, kernel=3),
        ),
        "ConvS2S, 20+20 layers of 512, kernel 3: the paper's English-Romanian model",
        "Gehring et al. 2017, §3, §4.3",
        "the output layer has no weight normalisation; positions beyond the table share its last vector; as in the "
        "authors' code, the attention output is mapped back to the layers' width and added before the residual sum",
    ),
    "vaswani2017-base": System(
        _transformer(layers=6, width=512, feed_forward=2048, heads=8, norm="post"),
        "Transformer, 6+6 layers, width 512",
        "Vaswani et al. 2017, §3, table 3",
        _HALVES,
    ),
    "vaswani2017-big": System(
        _transformer(layers=6, width=1024, feed_forward=4096, heads=16, norm="post", dropout=0.3),
        "Transformer, 6+6 layers, width 1,024",
        "Vaswani et al. 2017, §3, table 3",
        _HALVES,
    ),
    "tiny": System(
        _transformer(layers=2, width=128, feed_forward=512, heads=4),
        "Transformer, 2+2 layers, width 128: trains in minutes on a laptop",
        "Vaswani et al. 2017, §3",
        f"our own size; pre-norm; {_HALVES}",
    ),
    "small": System(
        _transformer(layers=3, width=256, feed_forward=1024, heads=4),
        "Transformer, 3+3 layers, width 256: for tens of thousands of sentence pairs",
        "Vaswani et al. 2017, §3",
        f"our own size; pre-norm; {_HALVES}",
    ),
    "base": System(
        _transformer(layers=6, width=512, feed_forward=2048, heads=8),
        "Transformer, 6+6 layers, width 512: for millions of sentence pairs, on a GPU",
        "Vaswani et al. 2017, §3",
        f"pre-norm where the paper has post-norm; {_HALVES}",
    ),
    "fast": System(
        ModelConfig(
            tie="auto",
            encoder=TransformerEncoderConfig(layers=8, width=256, feed_forward=1024, heads=4),
            decoder=TransformerDecoderConfig(layers=2, width=256, feed_forward=1024, heads=4, mixer="ssru"),
        ),
        "Transformer, 8 encoder and 2 decoder layers, width 256, SSRU in the decoder: fast decoding",
        "Kim et al. 2019, §3; Kasai et al. 2021",
        f"our own size; pre-norm; {_HALVES}",
    ),
}

LANGUAGE_MODELS: dict[str, System] = {
    "language": System(
        LanguageModelConfig(network=TransformerLanguageConfig(layers=4, width=256, feed_forward=1024, heads=4)),
        "a language model: causal Transformer, 4 layers, width 256; train it with --text",
        "Vaswani et al. 2017, §3",
        "our own size; self-attention only",
    ),
    "mikolov2010": System(
        LanguageModelConfig(
            tie=False,
            network=RecurrentLanguageConfig(cell="rnn", layers=1, width=300, embedding=300, dropout=0.0),
        ),
        "a language model: plain RNN of 300",
        "Mikolov et al. 2010, §2",
        "tanh instead of the logistic function; a softmax over all words, without a class of rare words",
    ),
    "zaremba2014-medium": System(
        LanguageModelConfig(
            tie=False,
            spread=0.05,
            network=RecurrentLanguageConfig(layers=2, width=650, embedding=650, dropout=0.5),
        ),
        "a language model: LSTM, 2 layers of 650, dropout between layers",
        "Zaremba et al. 2014, §4.1",
    ),
    "merity2018": System(
        LanguageModelConfig(
            network=RecurrentLanguageConfig(
                layers=3,
                width=1150,
                top_width=400,
                embedding=400,
                dropout=0.25,
                input_dropout=0.4,
                output_dropout=0.4,
                variational=True,
                weight_dropout=0.5,
                type_dropout=0.1,
                activation_penalty=2.0,
                temporal_penalty=1.0,
            ),
        ),
        "a language model: AWD-LSTM, 3 layers of 1,150, 1,150 and 400, DropConnect, tied weights",
        "Merity et al. 2018, §2-5",
    ),
    "kneser-ney": System(
        LanguageModelConfig(network=NgramLanguageConfig(order=5)),
        "a language model: 5-grams with modified Kneser-Ney smoothing, counted, not trained",
        "Chen and Goodman 1998, §3",
    ),
}

TAGGERS: dict[str, System] = {
    "huang2015": System(
        TaggerConfig(
            head="crf",
            word_dropout=0.05,
            encoder=RecurrentEncoderConfig(layers=1, width=600, embedding=50, dropout=0.5),
        ),
        "a tagger: BiLSTM of 300 in each direction, CRF; train it with --conll",
        "Huang et al. 2015, §2.5, §4.1",
        "words only, without the paper's spelling and context features; dropout; no pretrained word vectors",
    ),
    "lample2016": System(
        TaggerConfig(
            head="crf",
            word_dropout=0.05,
            encoder=RecurrentEncoderConfig(layers=1, width=200, embedding=100, dropout=0.5),
            characters=RecurrentCharactersConfig(embedding=25, width=50),
        ),
        "a tagger: BiLSTM of 100 in each direction over words and a BiLSTM over their characters, CRF",
        "Lample et al. 2016, §2, §4.1, §5.1",
        "no pretrained word vectors; no tanh layer before the CRF",
    ),
    "ma2016": System(
        TaggerConfig(
            head="crf",
            word_dropout=0.05,
            encoder=RecurrentEncoderConfig(layers=1, width=400, embedding=100, dropout=0.5),
            characters=ConvolutionalCharactersConfig(embedding=30, width=30, kernel=3, dropout=0.5),
        ),
        "a tagger: BiLSTM of 200 in each direction over words and a convolution over their characters, CRF",
        "Ma and Hovy 2016, §2, §3.2",
        "no pretrained word vectors",
    ),
    "brants2000": System(
        HiddenMarkovConfig(order=3),
        "a tagger: hidden Markov model (TnT), trigrams of labels, suffixes of unknown words; counted, not trained",
        "Brants 2000, §2",
        "no zero probabilities: unseen contexts back off, and a known word's suffix has a small weight; exact search",
    ),
}
STATISTICAL: dict[str, System] = {
    "dictionary": System(
        PhraseBasedConfig(
            units="words",
            language_order=0,
            translations=20,
            tuning=PhraseTuningConfig(iterations=0),
            search=PhraseSearchConfig(distortion=0),
        ),
        "word for word: each word by its most likely translation of a word alignment, in order; counted, not trained",
        "Vogel et al. 1996",
    ),
    "brown1993": System(
        PhraseBasedConfig(
            units="words",
            language_order=3,
            translations=20,
            tuning=PhraseTuningConfig(iterations=0),
            search=PhraseSearchConfig(distortion=0),
        ),
        "noisy channel: words by a dictionary P(source | target) and a trigram model of the target, in order",
        "Brown et al. 1993, §2; Vogel et al. 1996",
        "one target word per source word, in the order of the source; the dictionary is that of an HMM alignment",
    ),
    "koehn2003": System(
        PhraseBasedConfig(),
        "phrase-based: phrases of up to 7 words, 5-gram model; weights tuned on the validation data",
        "Koehn et al. 2003; Och 2003",
        "a log-linear model with the features of Moses; Kneser-Ney discounts; cube pruning",
    ),
}
SENTENCE_ENCODERS: dict[str, System] = {
    "sentences": System(
        SentenceEncoderConfig(
            projection=256, encoder=TransformerEncoderConfig(layers=2, width=256, feed_forward=1024, heads=4)
        ),
        "a sentence encoder: Transformer, 2 layers, width 256, mean pooling, vectors of 256",
        "Guo et al. 2018, §2; Yang et al. 2019, §2",
        "our own size; pre-norm; the loss compares each pair with its own batch only, in both directions",
    ),
    "bag-of-words": System(
        SentenceEncoderConfig(
            pooling="last", projection=256, encoder=BagOfWordsEncoderConfig(width=256, embedding=256, dropout=0.1)
        ),
        "a sentence encoder without word order: the mean of the word vectors, vectors of 256",
        "not from a paper: a baseline",
    ),
}

RECOMMENDERS: dict[str, System] = {
    "kang2018": System(
        RecommenderConfig(
            network=TransformerLanguageConfig(
                layers=2,
                width=64,
                heads=1,
                feed_forward=64,
                positions="learned",
                maximum_positions=256,
                dropout=0.5,
                attention_dropout=0.5,
            )
        ),
        "a recommender: SASRec, causal self-attention over items, 2 layers of 64; train it with --sequences",
        "Kang and McAuley 2018, §3, §4",
        "cross-entropy over the whole catalogue instead of binary cross-entropy with one negative "
        "(model.output.kind=negatives); width 64 instead of 50; positions are counted from the first item read, not "
        "from the last; the output layer has a bias",
    ),
    "hidasi2016": System(
        RecommenderConfig(
            tie=False,
            network=RecurrentLanguageConfig(cell="gru", layers=1, width=100, embedding=100, dropout=0.2),
            output=NegativesOutputConfig(loss="pairwise", negatives=32, sampling="frequency"),
        ),
        "a recommender: GRU4Rec, GRU of 100, pairwise ranking loss",
        "Hidasi et al. 2016, §3",
        "item vectors instead of one-hot inputs; negatives are sampled by frequency instead of taken from the batch; "
        "dropout",
    ),
    "zhou2018": System(
        RecommenderConfig(network=TimeAwareConfig()),
        "a recommender: after ATRank, self-attention with time buckets and behaviour types; needs records with both",
        "Zhou et al. 2018, §3",
        "causal, trained to predict every item of a history by cross-entropy over the catalogue, not one item by a "
        "binary loss; behaviour types are added as vectors, without a space of their own",
    ),
    "popularity": System(
        RecommenderConfig(network=PopularityConfig()),
        "a recommender: the most frequent items, the same for every user; a baseline without a network",
        "the usual baseline, e.g. Kang and McAuley 2018, §4.2",
    ),
}
RECOGNISERS: dict[str, System] = {
    "speech": System(
        RecogniserConfig(
            head="ctc", encoder=TransformerEncoderConfig(layers=4, width=144, feed_forward=576, heads=4, dropout=0.1)
        ),
        "a speech recogniser: Transformer, 4 layers, width 144, CTC; train it with --audio",
        "Vaswani et al. 2017, §3; Graves et al. 2006",
        "our own size; pre-norm; the encoder alone",
    ),
    "graves2006": System(
        RecogniserConfig(
            head="ctc",
            subsampling=SubsamplingConfig(layers=0),
            encoder=RecurrentEncoderConfig(layers=1, width=200, embedding=80, dropout=0.0),
        ),
        "a speech recogniser: BiLSTM of 100 in each direction over all frames, CTC",
        "Graves et al. 2006, §4, §5.1",
        "log-mel features instead of cepstral coefficients; SpecAugment; no peephole connections",
    ),
    "chan2016": System(
        RecogniserConfig(
            head="attention",
            subsampling=SubsamplingConfig(layers=3),
            encoder=RecurrentEncoderConfig(layers=3, width=512, embedding=256),
            decoder=LuongConfig(layers=2, width=512, embedding=256, bridge="zero"),
        ),
        "a speech recogniser: BiLSTM, 3 layers of 256 in each direction, attention, LSTM decoder, 2 layers of 512",
        "Chan et al. 2016, §3, §4",
        "convolutions reduce the frames to an eighth, not a pyramid of LSTMs; Luong's attention with input feeding; "
        "SpecAugment",
    ),
    "watanabe2017": System(
        RecogniserConfig(
            head="hybrid",
            ctc_weight=0.2,
            encoder=RecurrentEncoderConfig(layers=4, width=640, embedding=320),
            decoder=LuongConfig(layers=1, width=320, embedding=320, bridge="zero"),
        ),
        "a speech recogniser: BiLSTM, 4 layers of 320 in each direction, CTC and attention decoder together",
        "Watanabe et al. 2017, §III, §IV",
        "our convolutions reduce the frames to a quarter; Luong's attention instead of location-aware attention; "
        "SpecAugment",
    ),
}


def _xu(**attention: Any) -> CaptionerConfig:
    return CaptionerConfig(
        image=GridConfig(stages=3, width=128),
        decoder=BahdanauConfig(
            cell="lstm",
            width=256,
            embedding=128,
            readout=128,
            bridge="tanh",
            attention=AdditiveAttentionConfig(alignment=128, gated=True, **attention),
        ),
        doubly_stochastic=0.0 if attention else 0.1,
    )


_SMALL_IMAGES = (
    "our own size, for small images; a convolutional network of 6 layers that is trained with the rest, in place of a "
    "pretrained VGG; rows and columns are encoded; the readout has maxout units"
)
CAPTIONERS: dict[str, System] = {
    "xu2015": System(
        _xu(),
        "a captioner: convolutions, LSTM of 256 with soft attention, doubly stochastic; train it with --images",
        "Xu et al. 2015, §3, §4.2",
        f"{_SMALL_IMAGES}; the doubly stochastic term has the weight 0.1, not 1",
    ),
    "xu2015-hard": System(
        _xu(choice="hard"),
        "xu2015 with attention to one position of the image, sampled in training",
        "Xu et al. 2015, §3, §4.1",
        f"{_SMALL_IMAGES}; a sample's reward is the log-likelihood of its own word, not of the whole caption",
    ),
    "liu2021": System(
        CaptionerConfig(
            image=PatchesConfig(patch=8, width=128),
            encoder=TransformerEncoderConfig(layers=3, width=128, feed_forward=512, heads=4),
            decoder=TransformerDecoderConfig(layers=2, width=128, feed_forward=512, heads=4),
            tie=True,
        ),
        "a captioner: Transformer, 3+2 layers of 128, over patches of 8 × 8 pixels",
        "Liu et al. 2021, §2",
        f"our own size, for small images; not pretrained; pre-norm; {_HALVES}",
    ),
}

SYSTEMS: dict[str, System] = (
    TRANSLATORS | LANGUAGE_MODELS | TAGGERS | STATISTICAL | SENTENCE_ENCODERS | RECOMMENDERS | RECOGNISERS | CAPTIONERS
)

_WIDTHS = (
    "width",
    "top_width",
    "embedding",
    "feed_forward",
    "alignment",
    "readout",
    "column_width",
    "projection",
    "channels",
)


def system_model(name: str, *, scale: float = 1.0) -> AnyModelConfig:
    """The model config of a named system, with its widths, heads and layers multiplied by `scale`."""
    if name not in SYSTEMS:
        close = difflib.get_close_matches(name, SYSTEMS, n=1)
        meant = f"; did you mean {close[0]!r}?" if close else "."
        raise ConfigError(f"unknown system {name!r}{meant} Available systems: {', '.join(SYSTEMS)}")
    if not 0 < scale <= 4:
        raise ConfigError(f"scale is {scale}: it must be above 0 and at most 4")
    return scaled(SYSTEMS[name].model, scale=scale)


def scaled(model: AnyModelConfig, *, scale: float) -> AnyModelConfig:
    """The model config with its widths, heads and layers multiplied by `scale`.

    Widths are rounded to multiples of 8, equal widths stay equal, a stack of two or more layers keeps at least two, and
    the width of a head stays even. The range of initial weights (`spread`) is divided by √scale, so that sums over a
    width keep their magnitude.
    """
    return model if scale == 1 else check(type(model), _scaled(to_values(model), scale=scale), origin="scale")


def changed_sizes(name: str, *, scale: float) -> list[str]:
    """Lines that list the sizes that `scale` changes in a named system, one line per part of the model.

    The original sizes are in parentheses.
    """
    now, full = to_values(system_model(name, scale=scale)), to_values(SYSTEMS[name].model)
    spread = [f"spread {now['spread']} ({full['spread']})"] if now.get("spread") != full.get("spread") else []
    parts = (
        _differences(now[part], full[part], part)
        for part in ("encoder", "decoder", "network", "characters", "image")
        if part in now
    )
    return [", ".join(sizes) for sizes in (*parts, spread) if sizes]


def _differences(now: dict[str, Any], full: dict[str, Any], name: str) -> list[str]:
    found = []
    for key, value in now.items():
        if isinstance(value, dict):
            found += _differences(value, full[key], f"{name}.{key}")
        elif value != full[key]:
            found.append(f"{name}.{key} {value} ({full[key]})")
    return found


def _scaled(values: dict[str, Any], *, scale: float) -> dict[str, Any]:
    changed: dict[str, Any] = {
        key: _scaled(value, scale=scale) if isinstance(value, dict) else value for key, value in values.items()
    }
    for key in _WIDTHS:
        if values.get(key) is not None and (
            key != "alignment" or values["score"] == "additive"
        ):  # the only score with this setting
            changed[key] = max(8, 8 * round(values[key] * scale / 8))
    if values.get("spread") is not None:
        changed["spread"] = round(values["spread"] / scale**0.5, 4)
    if "layers" in values:
        changed["layers"] = max(min(values["layers"], 2), round(values["layers"] * scale))
    if "heads" in values:
        wanted = max(1, round(values["heads"] * scale))
        changed["heads"] = max(heads for heads in range(1, wanted + 1) if changed["width"] % (2 * heads) == 0)
        if values.get("key_value_heads") is not None:  # the same number of heads share one as before, or all do
            shared = values["heads"] // values["key_value_heads"]
            changed["key_value_heads"] = changed["heads"] // shared if changed["heads"] % shared == 0 else 1
    if values.get("attention_layer") is not None:  # at the same relative depth
        place = round(values["attention_layer"] * changed["layers"] / values["layers"])
        changed["attention_layer"] = max(1, place)
    return changed
