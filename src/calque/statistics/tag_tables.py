"""The tables of a hidden Markov tagger, estimated from a tagged corpus (TnT, Brants 2000).

Letters: N words of the corpus, W distinct words, Y labels, C characters. A *kind* is the case of a word's first
character: 0, or 1 if it is upper case. A *state* is a label and a kind, kind · Y + label; the sentence boundary is one
more state. The label of a state is hidden, its kind is observed.
"""

from typing import NamedTuple

import numpy as np

from calque.data.store import Array, Column
from calque.statistics.cooccurrence import Floats
from calque.statistics.suffixes import Spellings, SuffixTree, grow_suffixes
from calque.statistics.tag_ngrams import count_ngrams, interpolated
from calque.text.vocabulary import UNK

RARE = 10
SUFFIX = 10
SMOOTHING = 0.5


class TaggedWords(NamedTuple):
    """A tagged corpus as ids, all sentences one after the other."""

    lengths: Array  # of the sentences
    words: Array  # [N]
    labels: Array  # [N]
    spellings: Spellings  # of the N words

    @classmethod
    def of(cls, words: Column, labels: Column, *, characters: Column, word_lengths: Column) -> "TaggedWords":
        """The corpus in these columns of a store."""
        rows = np.flatnonzero(words.lengths)
        (ids, lengths), (tags, _) = words.gather(rows), labels.gather(rows)
        spellings = Spellings(characters.gather(rows)[0], word_lengths.gather(rows)[0].astype(np.int64))
        return cls(lengths, ids.astype(np.int64), tags.astype(np.int64), spellings)


class TagTables(NamedTuple):
    """The probabilities of a hidden Markov tagger."""

    transitions: Floats  # [E] · n, P(state | the n−1 states before it); E = kinds · Y + 1
    weights: tuple[float, ...]  # of the interpolated n-grams
    states: Floats  # [kinds,Y], P(label, kind)
    words: Floats  # [W,Y], P(label | word)
    suffixes: SuffixTree


class TableSettings(NamedTuple):
    """How the probability tables of a hidden Markov tagger are estimated."""

    order: int = 3
    """The length of the n-grams of labels: 3 for trigrams, 2 for bigrams, 1 for labels that are independent."""
    capitals: bool = True
    """Whether capitalised words have states, and suffixes, of their own."""
    suffix: int = SUFFIX
    """The longest suffix that predicts the label of an unknown word; 0 for none."""
    rare: int = RARE
    """Suffixes are learnt from words that occur at most this often."""
    smoothing: float = SMOOTHING
    """β, the weight of a known word's suffix, as an equivalent number of occurrences of the word."""


def count_tables(corpus: TaggedWords, *, sizes: tuple[int, int], is_upper: Array, settings: TableSettings) -> TagTables:
    """The tables of a corpus; `sizes` are the numbers of words and labels, `is_upper` [C] marks upper-case characters.

    P(t | w) = (c(w, t) + β P(t | suffix of w)) / (c(w) + β), so that no label of a known word is impossible; in the
    paper β = 0. By Bayes, P(w | t) is proportional to P(t | w) / P(t).
    """
    words, labels = sizes
    kinds = word_kinds(corpus.spellings, is_upper) if settings.capitals else np.zeros(len(corpus.words), dtype=np.int64)
    kind_count = 2 if settings.capitals else 1
    states, state_count = kinds * labels + corpus.labels, kind_count * labels
    ngrams = interpolated(count_ngrams(states, corpus.lengths, tag_count=state_count + 1, order=settings.order))
    unigrams = np.bincount(states, minlength=state_count) + 1.0
    unigrams = (unigrams / unigrams.sum()).reshape(kind_count, labels)
    counts = np.bincount(corpus.words * labels + corpus.labels, minlength=words * labels).reshape(words, labels)
    totals = counts.sum(axis=1)
    tree = _rare_suffixes(corpus, kinds, totals, priors=unigrams, characters=len(is_upper), settings=settings)
    nodes = np.zeros(words, dtype=np.int64)
    nodes[corpus.words] = tree.find(corpus.spellings, kinds, longest=settings.suffix)
    prior = settings.smoothing * tree.probabilities[nodes]
    lexical = (counts + prior) / (totals + settings.smoothing)[:, None]
    return TagTables(ngrams.probabilities, ngrams.weights, unigrams, lexical, tree)


def word_kinds(spellings: Spellings, is_upper: Array) -> Array:
    """The kind [N] of each word: 1 if its first character is upper case."""
    starts = np.cumsum(spellings.lengths) - spellings.lengths
    first = spellings.characters[np.minimum(starts, max(0, len(spellings.characters) - 1))]
    kinds: Array = (is_upper[first] & (spellings.lengths > 0)).astype(np.int64)
    return kinds


def _rare_suffixes(
    corpus: TaggedWords, kinds: Array, totals: Array, *, priors: Floats, characters: int, settings: TableSettings
) -> SuffixTree:
    """The suffix tree of the words that occur at most `settings.rare` times (`totals`) or are not in the vocabulary."""
    is_rare = (totals[corpus.words] <= settings.rare) | (corpus.words == UNK)
    starts = np.cumsum(corpus.spellings.lengths) - corpus.spellings.lengths
    lengths = corpus.spellings.lengths[is_rare]
    places = np.repeat(starts[is_rare] - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
    rare = Spellings(corpus.spellings.characters[places], lengths)
    return grow_suffixes(
        rare, kinds[is_rare], corpus.labels[is_rare], priors=priors, longest=settings.suffix, characters=characters
    )
