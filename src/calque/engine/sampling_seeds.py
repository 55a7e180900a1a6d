"""Random streams of requests: they depend on a request's line, not on its batch. Letter: B requests."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from calque.search.sampling import mixed


class Place(NamedTuple):
    """The position of a text in its input: its line, and its part if the line is split."""

    line: int
    part: int = 0  # of a long line that is translated in parts


def streams(places: Sequence[Place], *, seed: int) -> Tensor:
    """The numbers [B] of the texts' random streams, m(m(seed) + line) + part, where m mixes the bits of 64-bit numbers.

    Law: a stream depends on seed, line and part alone, not on other requests or on how earlier lines are split.
    """
    lines, parts = (torch.tensor(column) for column in zip(*places, strict=True))
    return mixed(mixed(torch.tensor(seed)) + lines) + parts
