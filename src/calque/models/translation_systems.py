"""Translation systems by name: neural models, and the statistical models that preceded them."""

from typing import Any

from calque.layers.attention import AdditiveAttentionConfig, AttentionConfig
from calque.models.bahdanau import BahdanauConfig
from calque.models.cho import ChoConfig
from calque.models.convolutional import ConvolutionalDecoderConfig, ConvolutionalEncoderConfig
from calque.models.gnmt import GnmtConfig
from calque.models.luong import LuongConfig
from calque.models.model import ModelConfig
from calque.models.phrase_based import PhraseBasedConfig, PhraseSearchConfig, PhraseTuningConfig
from calque.models.recurrent import RecurrentDecoderConfig, RecurrentEncoderConfig
from calque.models.system import BIASED, DRAWN, HALVES, SUBWORDS, System
from calque.models.transformer import TransformerDecoderConfig, TransformerEncoderConfig


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
        HALVES,
    ),
    "vaswani2017-big": System(
        _transformer(layers=6, width=1024, feed_forward=4096, heads=16, norm="post", dropout=0.3),
        "Transformer, 6+6 layers, width 1,024",
        "Vaswani et al. 2017, §3, table 3",
        HALVES,
    ),
    "tiny": System(
        _transformer(layers=2, width=128, feed_forward=512, heads=4),
        "Transformer, 2+2 layers, width 128: trains in minutes on a laptop",
        "Vaswani et al. 2017, §3",
        f"our own size; pre-norm; {HALVES}",
    ),
    "small": System(
        _transformer(layers=3, width=256, feed_forward=1024, heads=4),
        "Transformer, 3+3 layers, width 256: for tens of thousands of sentence pairs",
        "Vaswani et al. 2017, §3",
        f"our own size; pre-norm; {HALVES}",
    ),
    "base": System(
        _transformer(layers=6, width=512, feed_forward=2048, heads=8),
        "Transformer, 6+6 layers, width 512: for millions of sentence pairs, on a GPU",
        "Vaswani et al. 2017, §3",
        f"pre-norm where the paper has post-norm; {HALVES}",
    ),
    "fast": System(
        ModelConfig(
            tie="auto",
            encoder=TransformerEncoderConfig(layers=8, width=256, feed_forward=1024, heads=4),
            decoder=TransformerDecoderConfig(layers=2, width=256, feed_forward=1024, heads=4, mixer="ssru"),
        ),
        "Transformer, 8 encoder and 2 decoder layers, width 256, SSRU in the decoder: fast decoding",
        "Kim et al. 2019, §3; Kasai et al. 2021",
        f"our own size; pre-norm; {HALVES}",
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
        "word for word: replaces each word by its most likely translation in a word alignment; estimated from counts",
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
        "noisy channel: word by word, with a dictionary P(source | target) and a trigram model of the target",
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
