"""The named systems that read one text: language models, taggers and sentence encoders."""

from calque.models.bag_of_words import BagOfWordsEncoderConfig
from calque.models.characters import ConvolutionalCharactersConfig, RecurrentCharactersConfig
from calque.models.hidden_markov import HiddenMarkovConfig
from calque.models.language_model import LanguageModelConfig, RecurrentLanguageConfig, TransformerLanguageConfig
from calque.models.ngram import NgramLanguageConfig
from calque.models.recurrent import RecurrentEncoderConfig
from calque.models.sentence_encoder import SentenceEncoderConfig
from calque.models.system import System
from calque.models.tagger import TaggerConfig
from calque.models.transformer import TransformerEncoderConfig

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
        "a language model: 5-grams with modified Kneser-Ney smoothing, estimated from counts",
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
        "a tagger: hidden Markov model (TnT), trigrams of labels, suffixes of unknown words; estimated from counts",
        "Brants 2000, §2",
        "no zero probabilities: unseen contexts back off, and a known word's suffix has a small weight; exact search",
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
