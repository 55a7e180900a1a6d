"""8-bit weights of a model folder: tensor NAME holds a large weight in int8, tensor NAME.scales one scale per row."""

from collections.abc import Mapping

import torch
from torch import Tensor

from calque.errors import FolderError, first_few
from calque.layers.int8 import is_rounded
from calque.layers.int8_linear import Levels, from_levels, to_levels

SCALES = ".scales"
LARGEST_SCALE = 1e36  # times 128 levels, still a float


def to_int8(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rounds every large weight to 8 bits; all others are unchanged."""
    stored: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if is_rounded(weight):
            stored[name], stored[name + SCALES] = to_levels(weight)
        else:
            stored[name] = weight
    return stored


def from_int8(stored: Mapping[str, Tensor], *, origin: str) -> dict[str, Tensor]:
    """The weights in floating point; raises a FolderError that lists the 8-bit weights without matching scales."""
    levels = {name: value for name, value in stored.items() if value.dtype == torch.int8}
    scales = {name + SCALES: value for name, value in levels.items()}
    problems = [_fault(name, value, stored.get(name + SCALES)) for name, value in levels.items()]
    listed = first_few(sorted(problem for problem in problems if problem))
    if listed:
        raise FolderError("\n  ".join([f"{origin}: the 8-bit weights do not fit together:", *listed]))
    others = {name: value for name, value in stored.items() if name not in levels and name not in scales}
    return others | {name: from_levels(Levels(value, stored[name + SCALES])) for name, value in levels.items()}


def _fault(name: str, levels: Tensor, scales: Tensor | None) -> str | None:
    """Describes what is wrong with an 8-bit weight (`levels`) or its `scales`; None if nothing is."""
    if levels.dim() < 2:
        return f"{name} has shape {tuple(levels.shape)}, expected a matrix"
    if scales is None:
        return f"{name}{SCALES} is missing"
    if scales.dtype != torch.float32 or scales.shape != levels.shape[:1]:
        found = f"{tuple(scales.shape)} of {scales.dtype}"
        return f"{name}{SCALES} has shape {found}, expected {tuple(levels.shape[:1])} of {torch.float32}"
    if not ((scales > 0) & (scales < LARGEST_SCALE)).all():
        return f"{name}{SCALES}: not all scales are positive numbers below {LARGEST_SCALE:.0e}"
    return None
