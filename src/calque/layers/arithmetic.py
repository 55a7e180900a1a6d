"""Numbered versions of the arithmetic of training steps. A resumed run keeps the version that it was started with.

| version | what training steps use |
|---|---|
| 1 | torch's own dropout and packed LSTM; the loss from the logits of all positions at once |
| 2 | on a CPU, `dropout` with masks from 16-bit numbers, `packed_lstm`, and the loss and its gradient in chunks |
| 3 | on a GPU, `padded_output`, `padded_lstm` and fused LSTM cells; in compiled graphs, `short_attention` |
| 4 | in compiled graphs on a GPU, `trained_linear_relu`, and `short_self_attention` within sentences |

Results differ from version to version: in the last digits, and in the masks that dropout draws (decision 25).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Arithmetic = Literal[1, 2, 3, 4]
LATEST: Arithmetic = 4

_version: ContextVar[Arithmetic] = ContextVar("arithmetic", default=LATEST)


def arithmetic() -> Arithmetic:
    """The arithmetic version in use: the latest, except within `use_arithmetic`."""
    return _version.get()


@contextmanager
def use_arithmetic(version: Arithmetic) -> Iterator[None]:
    """A context in which layers compute as `training.arithmetic = version` says, so that older runs resume exactly."""
    token = _version.set(version)
    try:
        yield
    finally:
        _version.reset(token)
