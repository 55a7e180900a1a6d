"""Random streams of requests: they depend on a request's line, not on its batch. Letter: B requests."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from calque.search.sampling import mixed


class Place(NamedTuple):
    """Where a text stands in its input."""

    line: int
    part: int = 0  # of a long line that is translated in parts


def streams(places: Sequence[Place], *, seed: int) -> Tensor:
    """[B] 64-bit numbers m(m(seed) + line) + part, with a mixing function m, that determine each text's draws.

    Law: they depend on seed, line and part alone, so that windows, batches and split lines before it change nothing.
    """
    lines, parts = (torch.tensor(column) for column in zip(*places, strict=True))
    return mixed(mixed(torch.tensor(seed)) + lines) + parts
