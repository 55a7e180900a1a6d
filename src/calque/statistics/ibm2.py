"""IBM Model 2 with a diagonal prior: the position of a target word says where in the source it probably comes from.

Letters: B pairs, I source words, J target words. Dyer, Chahuneau and Smith (2013), whose program is fast_align.
"""

from typing import NamedTuple

import numpy as np

from calque.data.store import Array
from calque.statistics.cooccurrence import Cooccurrences, Floats
from calque.statistics.diagonal import TENSION, Diagonal, Shape, distances
from calque.statistics.em import SILENT, Iteration, Observer, reestimated
from calque.statistics.ibm1 import TranslationModel, most_likely_alignments

NAME = "IBM 2"
EMPTY = 0.08
"""p₀, the probability that a target word is drawn from the empty word."""


class DiagonalModel(NamedTuple):
    """The parameters of IBM Model 2 with a diagonal prior."""

    lexical: Floats
    """t(target | source) of each entry of the corpus."""
    diagonal: Diagonal
    empty: float  # p₀

    def prior(self, shape: Shape) -> Floats:
        """P(aⱼ = i) [J,1+I], which does not depend on the words: p₀ for the empty word, (1−p₀) δ(i | j) for others."""
        return np.pad((1 - self.empty) * self.diagonal.matrix(shape), ((0, 0), (1, 0)), constant_values=self.empty)

    def align(self, lexical: Floats) -> Array:
        """The index [B,J] of each target word's most likely source word (−1: empty word), given t(f|e) [J,B,1+I]."""
        targets, _, width = lexical.shape
        return most_likely_alignments(lexical * self.prior((width - 1, targets))[:, None])


class Expected(NamedTuple):
    """The result of the E-step for a chunk of sentence pairs."""

    log_likelihood: float
    posteriors: Floats  # [J,B,1+I]: P(target word j is drawn from source word i), column 0: from the empty word


def expected_alignments(lexical: Floats, *, prior: Floats) -> Expected:
    """The E-step for lexical probabilities t(fⱼ | eᵢ) [J,B,1+I] and prior probabilities P(aⱼ = i) [J,1+I].

    P(f | e) = Πⱼ Σᵢ P(aⱼ = i) t(fⱼ | eᵢ)          P(aⱼ = i | f, e) ∝ P(aⱼ = i) t(fⱼ | eᵢ)
    """
    joint = lexical * prior[:, None]
    totals = joint.sum(axis=2, keepdims=True)
    return Expected(float(np.log(totals).sum()), joint / totals)


def train_ibm2(
    corpus: Cooccurrences,
    start: TranslationModel,
    *,
    iterations: int,
    empty: float = EMPTY,
    tension: float = TENSION,
    learns_tension: bool = True,
    dirichlet: float | None = None,
    observer: Observer = SILENT,
) -> DiagonalModel:
    """IBM Model 2 with a diagonal prior, trained by EM from the lexical probabilities of IBM Model 1.

    λ begins at `tension` and is learnt unless `learns_tension` is false; p₀ is fixed. `dirichlet` is α of a symmetric
    Dirichlet prior on the translations of each word, for variational Bayes instead of EM (§3 of the paper; the authors'
    program uses 0.01).

    Law: the log-likelihood never falls. With variational Bayes, this holds for its lower bound instead.
    """
    model = DiagonalModel(start.lexical, Diagonal(tension), empty)
    for number in range(1, iterations + 1):
        after, log_likelihood = _iterate(
            corpus, model, dirichlet=dirichlet, phase=f"{NAME}, iteration {number}", observer=observer
        )
        observer.iteration(
            Iteration(NAME, number, log_likelihood, corpus.words, detail=f"λ {model.diagonal.tension:.2f}")
        )
        model = after if learns_tension else after._replace(diagonal=model.diagonal)
    return model


def _iterate(
    corpus: Cooccurrences, model: DiagonalModel, *, dirichlet: float | None, phase: str, observer: Observer
) -> tuple[DiagonalModel, float]:
    """The model after one more iteration of EM, and the log-likelihood of the corpus under the given `model`."""
    shapes = sorted({(chunk.sources, chunk.targets) for chunk in corpus.chunks})
    totals = {shape: np.zeros(shape[1]) for shape in shapes}
    distance = 0.0

    def expect(cells: Floats) -> float:
        nonlocal distance
        targets, _, width = cells.shape
        shape = width - 1, targets
        expected = expected_alignments(cells, prior=model.prior(shape))
        cells[:] = expected.posteriors
        by_position = expected.posteriors[:, :, 1:].sum(axis=1)  # [J,I]
        totals[shape] += by_position.sum(axis=1)
        distance += float((by_position * distances(shape)).sum())
        return expected.log_likelihood

    lexical, log_likelihood = reestimated(
        corpus, model.lexical, expect=expect, phase=phase, observer=observer, dirichlet=dirichlet
    )
    diagonal = model.diagonal.reestimated(totals, distance=distance)
    return DiagonalModel(lexical, diagonal, model.empty), log_likelihood
