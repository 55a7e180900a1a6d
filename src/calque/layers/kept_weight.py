"""A cache for normalised weights, which do not change between decoding steps."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class KeptWeight:
    """Caches a normalised weight during decoding, where every step would compute the same one again.

    It is computed again if a parameter's version counter shows a change, and is never cached where gradients are
    needed. In training, parameters also change without that counter; so the cache is `enabled` only in models that
    decode.
    """

    def __init__(self, compute: Callable[..., Tensor]) -> None:
        self.compute = compute
        self.enabled = False
        self._weight: Tensor | None = None
        self._origins: list[Origin] = []

    @property
    def is_used(self) -> bool:
        """Whether the weight is taken from the cache: the cache is enabled and no gradients are needed."""
        return self.enabled and not torch.is_grad_enabled()

    def __call__(self, direction: Tensor, *, magnitude: Tensor) -> Tensor:
        """The normalised weight, from the cache where possible."""
        if not self.is_used:
            return self.compute(direction, magnitude=magnitude)
        parameters = (direction, magnitude)
        if self._weight is None or not all(map(Origin.is_of, self._origins, parameters)):
            self._weight = self.compute(direction, magnitude=magnitude)
            self._origins = list(map(Origin.now, parameters))
        return self._weight


class Origin(NamedTuple):
    """The values of a parameter and their version, which increases with every change."""

    values: Tensor  # held, so that its memory is not given to another tensor
    version: int

    @classmethod
    def now(cls, parameter: Tensor) -> "Origin":
        """The present values of a parameter."""
        return cls(parameter.detach(), _version(parameter))

    def is_of(self, parameter: Tensor) -> bool:
        """Whether `parameter` is the recorded tensor and has not been changed since it was recorded."""
        return self.values.data_ptr() == parameter.data_ptr() and self.version == _version(parameter)


def _version(parameter: Tensor) -> int:
    return 0 if parameter.is_inference() else parameter._version
