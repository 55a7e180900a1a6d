"""Random streams of requests: they depend on a request's line, not on its batch. Letter: B requests."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from calque.engine.types import Request
from calque.search.sampling import mixed


class NumberedRequest(NamedTuple):
    """A request, and the number of the line that it is or belongs to."""

    request: Request
    line: int


def number_requests(requests: Iterable[Request], *, first: int) -> Iterator[NumberedRequest]:
    """The requests numbered by line, starting at `first`; all parts of a line have its number."""
    line = first - 1
    for request in requests:
        line += request.part == 0
        yield NumberedRequest(request, line)


def streams(window: Sequence[NumberedRequest], *, seed: int) -> Tensor:
    """[B] 64-bit numbers m(m(seed) + line) + part, with a mixing function m, that determine each request's draws.

    Law: they depend on seed, line and part alone, so that windows, batches and split lines before it change nothing.
    """
    numbers = ((numbered.line, numbered.request.part) for numbered in window)
    lines, parts = (torch.tensor(column) for column in zip(*numbers, strict=True))
    return mixed(mixed(torch.tensor(seed)) + lines) + parts
