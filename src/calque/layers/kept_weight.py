"""Normalised weights, kept from one decoding step to the next."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class KeptWeight:
    """Remembers a normalised weight while decoding, where every step would compute the same one again.

    It is computed again if the parameters have changed, and never kept where gradients are needed. Parameters that are
    assigned through `data`, as training does, may change unnoticed; so only models that decode are `enabled`.
    """

    def __init__(self, compute: Callable[..., Tensor]) -> None:
        self.compute = compute
        self.enabled = False
        self._weight: Tensor | None = None
        self._origins: list[Origin] = []

    @property
    def is_used(self) -> bool:
        """Whether weights are remembered now."""
        return self.enabled and not torch.is_grad_enabled()

    def __call__(self, direction: Tensor, *, magnitude: Tensor) -> Tensor:
        """The normalised weight, from memory where possible."""
        if not self.is_used:
            return self.compute(direction, magnitude=magnitude)
        parameters = (direction, magnitude)
        if self._weight is None or not all(map(Origin.is_of, self._origins, parameters)):
            self._weight = self.compute(direction, magnitude=magnitude)
            self._origins = [Origin(parameter.detach(), _version(parameter)) for parameter in parameters]
        return self._weight


class Origin(NamedTuple):
    """The values of a parameter and their version, which increases with every change."""

    values: Tensor  # held, so that its memory is not given to another tensor
    version: int

    def is_of(self, parameter: Tensor) -> bool:
        """Whether the parameter still has these values."""
        return self.values.data_ptr() == parameter.data_ptr() and self.version == _version(parameter)


def _version(parameter: Tensor) -> int:
    return 0 if parameter.is_inference() else parameter._version
