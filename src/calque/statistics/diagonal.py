"""The diagonal prior of IBM Model 2: a target word probably comes from a source word at the same relative position.

Letters: I source words, J target words, both counted from 1.
"""

from typing import NamedTuple

import numpy as np

from calque.statistics.cooccurrence import Floats

TENSION = 4.0
"""The initial λ, that of the authors' implementation."""
LARGEST = 20.0  # of λ
STEPS = 8  # gradient steps of each M-step
STEP = 4.0

Shape = tuple[int, int]
"""The numbers of source words and target words, (I, J)."""


class Diagonal(NamedTuple):
    """δ(i | j, I, J) = exp(−λ h(i, j)) / Σₖ exp(−λ h(k, j)), with h(i, j) = |i/I − j/J| (Dyer et al. 2013, §2).

    λ = 0 is uniform, as in IBM Model 1; a large λ keeps alignments close to the diagonal.
    """

    tension: float  # λ

    def matrix(self, shape: Shape) -> Floats:
        """δ(i | j, I, J) as [J,I]."""
        weights = np.exp(-self.tension * distances(shape))
        shares: Floats = weights / weights.sum(axis=1, keepdims=True)
        return shares

    def reestimated(self, totals: dict[Shape, Floats], *, distance: float) -> "Diagonal":
        """λ after some steps along the gradient of the expected log-likelihood Q(λ).

        `totals` maps each shape to the expected numbers [J] of target words j that are not drawn from the empty word;
        `distance` is the sum of their expected distances h. With N words in all,

            ∂Q/∂λ / N = (Σⱼ totalⱼ · E_δ[h | j] − distance) / N

        Law: Q never falls. It is concave, and its second derivative by λ, divided by N, is minus the variance of h,
        which is at most ¼, as h lies between 0 and 1; so steps of 4 times the gradient never overshoot the maximum.
        """
        words = sum(float(total.sum()) for total in totals.values())
        if not words:
            return self
        prior = self
        for _ in range(STEPS):
            expected = sum(
                float(total @ (prior.matrix(shape) * distances(shape)).sum(axis=1)) for shape, total in totals.items()
            )
            step = STEP * (expected - distance) / words
            prior = Diagonal(min(max(prior.tension + step, 0.0), LARGEST))
        return prior


def distances(shape: Shape) -> Floats:
    """h(i, j) = |i/I − j/J| as [J,I]."""
    sources, targets = shape
    rows, columns = np.arange(1, targets + 1) / targets, np.arange(1, sources + 1) / sources
    return np.abs(rows[:, None] - columns)
