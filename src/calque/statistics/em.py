"""Expectation maximisation, which all alignment models share (Dempster et al. 1977)."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from calque.statistics.cooccurrence import Cooccurrences, Floats


class Iteration(NamedTuple):
    """The log-likelihood of the corpus under the parameters that an iteration of EM began with."""

    model: str
    number: int  # from 1
    log_likelihood: float
    words: int
    """The number of target words over which the log-likelihood is summed."""
    detail: str = ""
    """Other parameters at the start of the iteration, as text for the user."""

    @property
    def perplexity(self) -> float:
        """The perplexity per target word."""
        return float(np.exp(-self.log_likelihood / max(1, self.words)))


class Observer:
    """Callbacks during the training of an alignment model; in this base class, they do nothing."""

    def iteration(self, iteration: Iteration) -> None:
        """Called after each iteration of EM."""

    def progress(self, phase: str, done: int, total: int) -> None:
        """Called after each block with the number of pairs done in a phase."""


SILENT = Observer()


def reestimated(
    corpus: Cooccurrences,
    lexical: Floats,
    *,
    expect: Callable[[Floats], float],
    phase: str,
    observer: Observer,
    dirichlet: float | None = None,
) -> tuple[Floats, float]:
    """The lexical probabilities of the next iteration, and the log-likelihood of the corpus under the current ones.

    `expect` is the E-step for a chunk of sentence pairs: it replaces their lexical probabilities [J,B,1+I], in place,
    by the posterior probabilities that the words are linked, and returns the log-likelihood. M-step: t(f | e) =
    c(f, e) / Σ_f' c(f', e), where c(f, e) is the sum of the posteriors wherever f and e occur in the same pair.
    With `dirichlet`, the M-step is that of variational Bayes (`Cooccurrences.expect`).
    """
    counts, log_likelihood = np.zeros_like(lexical), 0.0
    done, pairs = 0, corpus.pairs
    for block in corpus.blocks:
        values = block.gather(lexical)
        for chunk in block.chunks:
            log_likelihood += expect(chunk.cells(values))
            done += len(chunk.pairs)
        block.add(counts, values)
        observer.progress(phase, done, pairs)
    if dirichlet is None:
        corpus.normalise(counts)
    else:
        corpus.expect(counts, dirichlet=dirichlet)
    return counts, log_likelihood
