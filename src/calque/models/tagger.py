"""Taggers: a label for every word, predicted by a softmax per word or by a CRF over the sentence.

Huang et al. 2015 (BiLSTM-CRF); Lample et al. 2016 and Ma and Hovy 2016 (with characters).

Letters: B sentences, T words, D width, Y labels.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple, assert_never

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config
from calque.layers.bounds import Width
from calque.layers.crf import Allowed, LinearChainCRF
from calque.layers.dropout import dropout
from calque.layers.output import wide
from calque.models.characters import CharactersConfig, NoCharactersConfig, build_characters
from calque.models.inputs import WordInputs, Words
from calque.models.model import EncoderConfig, build_encoder
from calque.models.recurrent import RecurrentEncoderConfig
from calque.tensors import length_mask

Probability = Annotated[float, Field(ge=0, lt=1)]
HeadName = Literal["softmax", "crf"]


class TaggerConfig(Config):
    """An encoder of words and a head that predicts their labels."""

    kind: Literal["tagger"] = "tagger"
    head: HeadName = "crf"
    """softmax predicts each label independently; crf predicts all labels of a sentence jointly, with transition
    scores."""
    dropout: Probability = 0.5
    """Dropout on the encoder's output."""
    word_dropout: Probability = 0.05
    """The probability that training replaces a word by the unknown word, so that the unknown word's vector is
    learnt."""
    column_width: Width = 25
    """Width of the vectors of each further input column (task.inputs)."""
    encoder: EncoderConfig = RecurrentEncoderConfig(layers=1, width=200, embedding=100, dropout=0.5)
    """The encoder of the words. Its `embedding` (in a Transformer its `width`) is the width of the word vectors; the
    vectors of characters and further columns are concatenated to them."""
    characters: CharactersConfig = NoCharactersConfig()

    @property
    def word_width(self) -> int:
        """Width of the word vectors."""
        return int(getattr(self.encoder, "embedding", self.encoder.width))


class TaggerSizes(NamedTuple):
    """The vocabulary sizes of a tagger's inputs and labels."""

    words: int
    labels: int
    characters: int = 0
    columns: Mapping[str, int] = MappingProxyType({})


class TaggerModel(nn.Module):
    """A tagger: an encoder of words, and a head that scores every label of every word and finds the best labels."""

    def __init__(self, config: TaggerConfig, *, sizes: TaggerSizes) -> None:
        super().__init__()
        inputs = WordInputs(
            sizes.words,
            width=config.word_width,
            word_dropout=config.word_dropout,
            characters=build_characters(config.characters, vocabulary_size=sizes.characters),
            columns=sizes.columns,
            column_width=config.column_width if sizes.columns else 0,
        )
        self.encoder = build_encoder(config.encoder, inputs=inputs)
        self.head = build_head(config.head, width=self.encoder.shape.width, labels=sizes.labels)
        self.dropout = config.dropout
        self.sizes = sizes

    def forward(self, source: Words) -> Tensor:
        """The score of every label of every word, [B,T,Y], in at least float32.

        Rows without words, which only pad the batch to its shape, are encoded as if they had one word.
        """
        non_empty = source._replace(lengths=source.lengths.clamp(min=1))
        hidden = dropout(self.encoder(non_empty).values, self.dropout, self.training)
        return wide(self.head.scores(hidden))

    def losses(self, scores: Tensor, labels: Tensor, lengths: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """The negative log-probability [B] of each sentence's labels [B,T]; 0 for rows without words."""
        return self.head.losses(scores, labels, lengths, smoothing=smoothing)

    def best(self, scores: Tensor, lengths: Tensor, *, allowed: Allowed | None = None) -> Tensor:
        """The best labels [B,T]; a CRF considers only the sequences that are `allowed`."""
        return self.head.best(scores, lengths, allowed=allowed)

    def marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """The probability of every label of every word, [B,T,Y]; 0 after a sentence's last word."""
        return self.head.marginals(scores, lengths)

    def log_marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """The log-probability of every label of every word, [B,T,Y]; 0 after a sentence's last word."""
        return self.head.log_marginals(scores, lengths)


class SoftmaxHead(nn.Module):
    """P(y | x) = Π softmax(W hₜ + b)[yₜ]: given the words, labels are independent of each other."""

    def __init__(self, width: int, *, labels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, labels)

    def scores(self, hidden: Tensor) -> Tensor:
        scores: Tensor = self.linear(hidden)
        return scores

    def losses(self, scores: Tensor, labels: Tensor, lengths: Tensor, *, smoothing: float) -> Tensor:
        mask = _mask(scores, lengths)
        flat = F.cross_entropy(
            scores.flatten(0, 1),
            labels.masked_fill(~mask, 0).flatten(),
            reduction="none",
            label_smoothing=smoothing if self.training else 0.0,
        )
        return flat.view(mask.shape).masked_fill(~mask, 0).sum(dim=1)

    def best(self, scores: Tensor, lengths: Tensor, *, allowed: Allowed | None) -> Tensor:
        return scores.argmax(dim=-1).masked_fill(~_mask(scores, lengths), 0)

    def marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        return scores.softmax(dim=-1).masked_fill(~_mask(scores, lengths)[..., None], 0)

    def log_marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        return scores.log_softmax(dim=-1).masked_fill(~_mask(scores, lengths)[..., None], 0)


class CrfHead(nn.Module):
    """A linear layer followed by a linear-chain CRF."""

    def __init__(self, width: int, *, labels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, labels)
        self.crf = LinearChainCRF(labels)

    def scores(self, hidden: Tensor) -> Tensor:
        scores: Tensor = self.linear(hidden)
        return scores

    def losses(self, scores: Tensor, labels: Tensor, lengths: Tensor, *, smoothing: float) -> Tensor:
        assert not smoothing, "label smoothing does not apply to a CRF"
        return self.crf.loss(scores, labels, lengths)

    def best(self, scores: Tensor, lengths: Tensor, *, allowed: Allowed | None) -> Tensor:
        return self.crf.viterbi(scores, lengths, allowed=allowed).labels

    def marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        return self.crf.marginals(scores, lengths)

    def log_marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        return self.crf.log_marginals(scores, lengths)


def build_head(name: HeadName, *, width: int, labels: int) -> SoftmaxHead | CrfHead:
    """The head called `name`, which predicts labels from vectors of the given width."""
    match name:
        case "softmax":
            return SoftmaxHead(width, labels=labels)
        case "crf":
            return CrfHead(width, labels=labels)
        case _:
            assert_never(name)


def _mask(scores: Tensor, lengths: Tensor) -> Tensor:
    return length_mask(lengths.to(scores.device, non_blocking=True), size=scores.shape[1])
