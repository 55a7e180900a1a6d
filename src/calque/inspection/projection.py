"""Principal components in two dimensions, fitted in chunks. Letters: N states, D width, C states of a chunk."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

DIMENSIONS = 2
CHUNK = 8192
"""The number of states that are in memory at a time."""


class Projection(NamedTuple):
    """A linear map to the two directions in which states vary most."""

    mean: Array  # [D]
    components: Array  # [2,D], orthonormal rows
    explained: tuple[float, float]  # the share of the variance in each direction

    def __call__(self, states: Array) -> Array:
        """[N,2], the coordinates of states [N,D]."""
        points: Array = (np.asarray(states, dtype=np.float64) - self.mean) @ self.components.T
        return points


def chunks(states: Array, *, size: int = CHUNK) -> Iterator[Array]:
    """Yields chunks [C,D] of consecutive states in float64; only one chunk is in memory at a time."""
    for start in range(0, len(states), size):
        yield np.asarray(states[start : start + size], dtype=np.float64)


def fit_projection(states: Array, *, chunk: int = CHUNK) -> Projection:
    """The principal components of states [N,D] (Pearson 1901): eigenvectors of their covariance, computed exactly.

    A direction's sign is arbitrary; here its entry of largest magnitude (the first of several) is positive. Directions
    without variance, such as the second of states that all lie on one line, are zero.
    """
    width = states.shape[1]
    mean = sum((part.sum(axis=0) for part in chunks(states, size=chunk)), np.zeros(width)) / max(len(states), 1)
    scatter = np.zeros((width, width))
    for part in chunks(states, size=chunk):
        centred = part - mean
        scatter += centred.T @ centred
    total = float(np.trace(scatter))
    values, vectors = np.linalg.eigh(scatter)
    components, explained = np.zeros((DIMENSIONS, width)), [0.0] * DIMENSIONS
    tolerance = total * width * np.finfo(np.float64).eps
    for place, column in enumerate(reversed(range(max(width - DIMENSIONS, 0), width))):
        if values[column] > tolerance:
            direction = vectors[:, column]
            components[place] = direction * np.sign(direction[np.argmax(np.abs(direction))])
            explained[place] = float(values[column]) / total
    return Projection(mean, components, (explained[0], explained[1]))


def to_values(projection: Projection) -> dict[str, Any]:
    """A projection as JSON values, without loss of precision."""
    return {
        "mean": projection.mean.tolist(),
        "components": projection.components.tolist(),
        "explained": list(projection.explained),
    }


def from_values(values: dict[str, Any], *, width: int) -> Projection:
    """A projection from JSON values; raises a ValueError, TypeError or KeyError if they are not a projection."""
    mean, components = (np.array(values[key], dtype=np.float64) for key in ("mean", "components"))
    first, second = (float(share) for share in values["explained"])
    if mean.shape != (width,) or components.shape != (DIMENSIONS, width):
        raise ValueError(
            f"expected a projection with a mean of shape {(width,)} and components of shape {(DIMENSIONS, width)}; "
            f"found {mean.shape} and {components.shape}"
        )
    return Projection(mean, components, (first, second))
