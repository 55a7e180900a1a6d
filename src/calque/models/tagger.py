"""Taggers: a label for every word, by a softmax over each word or a CRF over the whole sentence.

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
from calque.layers.output import wide
from calque.models.characters import CharactersConfig, NoCharactersConfig, build_characters
from calque.models.inputs import WordInputs, Words
from calque.models.model import EncoderConfig, build_encoder
from calque.models.recurrent import RecurrentEncoderConfig
from calque.tensors import length_mask

Probability = Annotated[float, Field(ge=0, lt=1)]
HeadName = Literal["softmax", "crf"]


class TaggerConfig(Config):
    """An encoder of words, and what chooses their labels."""

    kind: Literal["tagger"] = "tagger"
    head: HeadName = "crf"
    """softmax: every word by itself. crf: the sentence as a whole, with learnt transitions between labels."""
    dropout: Probability = 0.5
    """On the encoder's output."""
    word_dropout: Probability = 0.05
    """How often a word is read as an unknown one in training, which trains the unknown word's vector."""
    column_width: Width = 25
    """Width of the vectors of each further input column (task.inputs)."""
    encoder: EncoderConfig = RecurrentEncoderConfig(layers=1, width=200, embedding=100, dropout=0.5)
    """Its embedding (of a Transformer: its width) is the width of the word vectors; vectors of characters and further
    columns are put beside them."""
    characters: CharactersConfig = NoCharactersConfig()

    @property
    def word_width(self) -> int:
        """Width of the word vectors."""
        return int(getattr(self.encoder, "embedding", self.encoder.width))


class TaggerSizes(NamedTuple):
    """How many ids there are of everything a tagger reads and gives."""

    words: int
    labels: int
    characters: int = 0
    columns: Mapping[str, int] = MappingProxyType({})


class TaggerModel(nn.Module):
    """Words → vectors → encoder → a score for every label → the best labels."""

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
        """[B,T,Y], a score for every label of every word, in float32 at least.

        Rows without words, which only fill a shape, are read as if they had one.
        """
        read = source._replace(lengths=source.lengths.clamp(min=1))
        hidden = F.dropout(self.encoder(read).values, self.dropout, self.training)
        return wide(self.head.scores(hidden))

    def losses(self, scores: Tensor, labels: Tensor, lengths: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """[B], the negative log-probability of each sentence's labels [B,T]; 0 for rows without words."""
        return self.head.losses(scores, labels, lengths, smoothing=smoothing)

    def best(self, scores: Tensor, lengths: Tensor, *, allowed: Allowed | None = None) -> Tensor:
        """[B,T], the best labels; a CRF chooses among the sequences that are `allowed`."""
        return self.head.best(scores, lengths, allowed=allowed)

    def marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """[B,T,Y], the probability of every label of every word, 0 behind a sentence's last word."""
        return self.head.marginals(scores, lengths)


class SoftmaxHead(nn.Module):
    """P(y | x) = Π softmax(W hₜ + b)[yₜ]: labels are independent of each other, given the words."""

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


class CrfHead(nn.Module):
    """A linear layer under a linear-chain CRF."""

    def __init__(self, width: int, *, labels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, labels)
        self.crf = LinearChainCRF(labels)

    def scores(self, hidden: Tensor) -> Tensor:
        scores: Tensor = self.linear(hidden)
        return scores

    def losses(self, scores: Tensor, labels: Tensor, lengths: Tensor, *, smoothing: float) -> Tensor:
        assert not smoothing, "a CRF smooths no labels"
        return self.crf.loss(scores, labels, lengths)

    def best(self, scores: Tensor, lengths: Tensor, *, allowed: Allowed | None) -> Tensor:
        return self.crf.viterbi(scores, lengths, allowed=allowed).labels

    def marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        return self.crf.marginals(scores, lengths)


def build_head(name: HeadName, *, width: int, labels: int) -> SoftmaxHead | CrfHead:
    """The head of that name."""
    match name:
        case "softmax":
            return SoftmaxHead(width, labels=labels)
        case "crf":
            return CrfHead(width, labels=labels)
        case _:
            assert_never(name)


def _mask(scores: Tensor, lengths: Tensor) -> Tensor:
    return length_mask(lengths.to(scores.device, non_blocking=True), size=scores.shape[1])
