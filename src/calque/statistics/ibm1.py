"""IBM Model 1: each target word is drawn from a source word of its pair or from the empty word, whatever its position.

Letters: B pairs, I source words, J target words.
"""

from typing import NamedTuple

import numpy as np

from calque.data.store import Array
from calque.statistics.cooccurrence import Cooccurrences, Floats
from calque.statistics.em import SILENT, Iteration, Observer, reestimated

NAME = "IBM 1"


class Expected(NamedTuple):
    """The result of the E-step for a chunk of sentence pairs."""

    log_likelihood: float
    posteriors: Floats  # [J,B,1+I]: P(target word j is drawn from source word i), column 0: from the empty word


def expected_alignments(lexical: Floats) -> Expected:
    """The E-step of IBM Model 1 for lexical probabilities t(fⱼ | eᵢ) [J,B,1+I] (Brown et al. 1993, §4.1; e₀ is empty).

        P(f | e) = Πⱼ 1/(I+1) Σᵢ t(fⱼ | eᵢ)          P(aⱼ = i | f, e) = t(fⱼ | eᵢ) / Σₖ t(fⱼ | eₖ)

    P is conditional on the length of the target, so the paper's length model is left out.
    """
    totals = lexical.sum(axis=2, keepdims=True)
    log_likelihood = np.log(totals).sum() - totals.size * np.log(lexical.shape[2])
    return Expected(float(log_likelihood), lexical / totals)


class TranslationModel(NamedTuple):
    """The parameters of IBM Model 1."""

    lexical: Floats
    """t(target | source) of each entry of the corpus."""

    def align(self, lexical: Floats) -> Array:
        """The index [B,J] of each target word's most likely source word (−1: empty word), given t(f|e) [J,B,1+I]."""
        return most_likely_alignments(lexical)


def train_ibm1(corpus: Cooccurrences, *, iterations: int, observer: Observer = SILENT) -> TranslationModel:
    """IBM Model 1, trained by EM from a uniform start.   Law: the log-likelihood never falls."""

    def expect(cells: Floats) -> float:
        expected = expected_alignments(cells)
        cells[:] = expected.posteriors
        return expected.log_likelihood

    lexical = np.ones(len(corpus.targets))
    corpus.normalise(lexical)
    for number in range(1, iterations + 1):
        phase = f"{NAME}, iteration {number}"
        lexical, log_likelihood = reestimated(corpus, lexical, expect=expect, phase=phase, observer=observer)
        observer.iteration(Iteration(NAME, number, log_likelihood, corpus.words))
    return TranslationModel(lexical)


def most_likely_alignments(lexical: Floats) -> Array:
    """For each target word [B,J], the index of the most likely source word, or −1 for the empty word.

    Ties go to the first. In IBM Model 1 the words of a target are independent of each other given the source.
    """
    words: Array = lexical.argmax(axis=2).T - 1
    return words
