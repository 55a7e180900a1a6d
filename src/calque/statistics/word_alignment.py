"""Word alignment of a parallel corpus in one direction: a model is trained on the corpus and then aligns it.

>>> alignments = align_words(store["source"], store["target"])
>>> alignments.links(0)
[(0, 0), (2, 1), (1, 2)]
"""

from typing import Literal, NamedTuple, assert_never

import numpy as np

from calque.data.store import Array, Column
from calque.statistics import hmm, ibm2
from calque.statistics.cooccurrence import MAXIMUM, Cooccurrences, cooccurrences
from calque.statistics.diagonal import TENSION
from calque.statistics.em import SILENT, Observer
from calque.statistics.hmm import SMOOTHING, HiddenMarkovModel, train_hmm
from calque.statistics.ibm1 import TranslationModel, train_ibm1
from calque.statistics.ibm2 import DiagonalModel, train_ibm2
from calque.statistics.lexicon import MINIMUM, LexicalTable, lexical_table

ModelName = Literal["ibm1", "ibm2", "hmm"]
EMPTY = {"ibm2": ibm2.EMPTY, "hmm": hmm.EMPTY}
"""The default probability of the empty word by model; in IBM Model 1, it is a word like any other."""

Link = tuple[int, int]
"""(source word, target word), counted from 0."""


class AlignmentSettings(NamedTuple):
    """A model, and how it is trained."""

    model: ModelName = "hmm"
    iterations: tuple[int, int] = (5, 5)
    """The EM iterations of IBM Model 1, which initialises the others, and of IBM Model 2 or the HMM."""
    empty: float | None = None
    """The probability of the empty word; by default, the model's value in EMPTY."""
    smoothing: float = SMOOTHING
    """The weight of the uniform distribution in the HMM's jumps."""
    tension: float = TENSION
    """λ of IBM Model 2: how close its alignments are to the diagonal."""
    learns_tension: bool = True
    """Whether IBM Model 2 learns λ, starting from `tension`."""
    dirichlet: float | None = None
    """α of a Dirichlet prior on the lexicon of IBM Model 2, which is then trained by variational Bayes."""
    maximum: int = MAXIMUM
    """Pairs with more words than this on either side are neither learnt from nor aligned."""


HMM, IBM1, IBM2 = AlignmentSettings(), AlignmentSettings("ibm1"), AlignmentSettings("ibm2")


class WordAlignments(NamedTuple):
    """The source word that each target word is aligned to, and the lexicon that the model learnt."""

    words: Array  # int32 [target words]: a source word, counted from 0, or −1: none
    offsets: Array  # [pairs + 1]
    lexicon: LexicalTable
    pairs: int
    """The number of pairs that were aligned: those in which neither side is empty or too long."""

    def links(self, pair: int) -> list[Link]:
        """The links of a pair, in target order."""
        words = self.words[self.offsets[pair] : self.offsets[pair + 1]].tolist()
        return [(source, target) for target, source in enumerate(words) if source >= 0]


def align_words(
    source: Column,
    target: Column,
    *,
    settings: AlignmentSettings = HMM,
    minimum: float = MINIMUM,
    observer: Observer = SILENT,
) -> WordAlignments:
    """Links each word of row n of `target` to the most likely word, or none, of row n of `source`.

    The lexicon keeps translations with t(target | source) ≥ `minimum`.
    """
    corpus = cooccurrences(source, target, maximum=settings.maximum)
    model = _train(corpus, settings, observer=observer)
    offsets = np.concatenate([[0], np.cumsum(target.lengths, dtype=np.int64)])
    words = np.full(int(offsets[-1]), -1, dtype=np.int32)
    done, pairs = 0, corpus.pairs
    for block in corpus.blocks:
        values = block.gather(model.lexical)
        for chunk in block.chunks:
            words[offsets[chunk.pairs][:, None] + np.arange(chunk.targets)] = model.align(chunk.cells(values))
            done += len(chunk.pairs)
        observer.progress("aligning", done, pairs)
    return WordAlignments(words, offsets, lexical_table(corpus, model.lexical, minimum=minimum), pairs)


def train_lexicon(
    source: Column,
    target: Column,
    *,
    sources: int | None = None,
    targets: int | None = None,
    settings: AlignmentSettings = IBM1,
    minimum: float = MINIMUM,
    observer: Observer = SILENT,
) -> LexicalTable:
    """The table of t(target | source) ≥ `minimum`, learnt from pairs: row n of `source`, row n of `target`.

    A column has flat ids, offsets and lengths, which may be memory-mapped. `sources` and `targets` are the sizes of the
    vocabularies, by default inferred from the largest ids.
    """
    corpus = cooccurrences(source, target, sources=sources, targets=targets, maximum=settings.maximum)
    model = _train(corpus, settings, observer=observer)
    return lexical_table(corpus, model.lexical, minimum=minimum)


def _train(
    corpus: Cooccurrences, settings: AlignmentSettings, *, observer: Observer
) -> TranslationModel | DiagonalModel | HiddenMarkovModel:
    model = train_ibm1(corpus, iterations=settings.iterations[0], observer=observer)
    match settings.model:
        case "ibm1":
            return model
        case "ibm2":
            return train_ibm2(
                corpus,
                model,
                iterations=settings.iterations[1],
                empty=EMPTY["ibm2"] if settings.empty is None else settings.empty,
                tension=settings.tension,
                learns_tension=settings.learns_tension,
                dirichlet=settings.dirichlet,
                observer=observer,
            )
        case "hmm":
            return train_hmm(
                corpus,
                model,
                iterations=settings.iterations[1],
                empty=EMPTY["hmm"] if settings.empty is None else settings.empty,
                smoothing=settings.smoothing,
                observer=observer,
            )
        case _:
            assert_never(settings.model)
