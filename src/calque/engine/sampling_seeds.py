"""Which random numbers a request is answered with: those of its own place, whoever stands beside it. Letter: B."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from calque.engine.types import Request
from calque.search.sampling import mixed


class NumberedRequest(NamedTuple):
    """A request, and the number of the line that it is, or is a part of."""

    request: Request
    line: int


def placed(requests: Iterable[Request], *, first: int) -> Iterator[NumberedRequest]:
    """The requests numbered by lines from `first` on; later parts of a line have its number."""
    line = first - 1
    for request in requests:
        line += request.part == 0
        yield NumberedRequest(request, line)


def streams(window: Sequence[NumberedRequest], *, seed: int) -> Tensor:
    """[B] numbers of 64 bits, m(m(seed) + line) + part with m well mixed, from which each request's draws follow.

    Law: they depend on seed, line and part alone, so a window, a batch or a split line before it change nothing.
    """
    lines, parts = (torch.tensor(each) for each in zip(*((one.line, one.request.part) for one in window), strict=True))
    return mixed(mixed(torch.tensor(seed)) + lines) + parts
