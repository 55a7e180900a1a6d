"""An LSTM over rows of different lengths that reads the padding too, for kernels and graphs with fixed shapes.

Letters: N rows, S positions, E input width, D width, R directions.

Packing sorts rows and counts tokens on the host, so that shapes change from batch to batch, which no captured graph
allows. Here a kernel reads the padding too, but padding does not change the cell c: an additional input is 1 at
padding, and its weights are so large that the forget gate is exactly 1 and the input gate exactly 0. Read forwards, a
row still has the cell of its last token after the padding. Read backwards, a row begins with the padding and reaches
its last token with the initial cell c = 0, and thus h = o·tanh 0 = 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from calque.layers.arithmetic import arithmetic
from calque.tensors import at_last, length_mask

SHUT = 1e4  # σ(±SHUT) is exactly 1 or 0 in every floating-point format, whatever else enters a gate
COLUMNS = 8  # of the additional inputs: one that is used, and seven that keep rows of 16 bytes in half precision


class Direction(NamedTuple):
    """The weights of an LSTM in one direction, gates in the order i f g o."""

    inputs: Tensor  # [4D,E]
    hidden: Tensor  # [4D,D]
    biases: tuple[Tensor, Tensor]  # [4D] each


class PaddedStates(NamedTuple):
    """The states of an LSTM, with the outputs of both directions concatenated."""

    hidden: Tensor  # [N,S,R·D], zero at padding
    final: tuple[tuple[Tensor, Tensor], ...]  # per direction, h and c [N,D] after its last token


def is_read_with_padding(inputs: Tensor) -> bool:
    """Whether LSTM encoders are trained on padded instead of packed rows: on a GPU, with `training.arithmetic` ≥ 3."""
    return inputs.device.type == "cuda" and torch.is_grad_enabled() and arithmetic() >= 3


def padded_lstm(inputs: Tensor, lengths: Tensor, directions: Sequence[Direction]) -> PaddedStates:
    """The states of an LSTM from a zero state over `inputs` [N,S,E] with `lengths` [N], both on one device.

    The first direction reads rows forwards, the second, if there is one, backwards; one kernel computes both.
    """
    rows, size, _ = inputs.shape
    width = directions[0].hidden.shape[1]
    is_padding = ~length_mask(lengths, size=size)
    flags = inputs.new_zeros(rows, size, COLUMNS)
    flags[..., 0] = is_padding
    flagged = torch.cat([inputs.masked_fill(is_padding[..., None], 0.0), flags], dim=-1)
    weights = [
        weight
        for direction in directions
        for weight in (_shut_at_padding(direction.inputs), direction.hidden, *direction.biases)
    ]
    zero = inputs.new_zeros(len(directions), rows, width)
    outputs, _, cells = torch._VF.lstm(
        flagged, (zero, zero), side_by_side(weights), True, 1, 0.0, True, len(directions) == 2, True
    )
    hidden = outputs.masked_fill(is_padding[..., None], 0.0)
    halves = torch.split(hidden, width, dim=-1)
    last = (at_last(halves[0], lengths), *(half[:, 0] for half in halves[1:]))
    return PaddedStates(hidden, tuple(zip(last, cells.unbind(0), strict=True)))


def side_by_side(weights: list[Tensor]) -> list[Tensor]:
    """The same weights; on a GPU, all in one block of memory, first the matrices of all directions, then the biases.

    This is the layout of cuDNN, which would otherwise copy the weights and warn at every call.
    """
    if not weights[0].is_cuda:
        return weights
    order = sorted(range(len(weights)), key=lambda index: -weights[index].dim())  # stable
    flat = torch.cat([weights[index].flatten() for index in order])
    parts = dict(zip(order, torch.split(flat, [weights[index].numel() for index in order]), strict=True))
    return [parts[index].view_as(weight) for index, weight in enumerate(weights)]


def _shut_at_padding(weight: Tensor) -> Tensor:
    """LSTM input weights [4D,E], extended by COLUMNS for a flag that is 1 at padding and keeps the cell unchanged."""
    width = len(weight) // 4
    columns = weight.new_zeros(len(weight), COLUMNS)
    columns[:width, 0], columns[width : 2 * width, 0] = -SHUT, SHUT
    return torch.cat([weight, columns], dim=1)
