"""An LSTM over rows of different lengths, with its gradient written out.

Letters: N rows, S positions, T steps, M tokens (positions without padding), E input width, D width. Tokens are packed
step by step: the first tokens of all rows, longest row first, then the second tokens of the rows that have one, …

torch's own kernel for packed rows slices the tokens at every step, and the backward pass of every slice zeroes a tensor
as large as all tokens. Here the backward pass writes each token's gradient once, and the gradient of the recurrent
weights is a single matrix product instead of one per step.
"""

from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


class Packing(NamedTuple):
    """The order in which tokens are packed."""

    places: Tensor  # [M], the index b·S + s of each token in the padded rows
    sizes: tuple[int, ...]  # [T], how many rows have a token at each step
    last: Tensor  # [N], the packed index of the last token of each row


class PackedStates(NamedTuple):
    """The states of an LSTM after each token, and after the last token of each row."""

    hidden: Tensor  # [N,S,D], zero at padding
    final: tuple[Tensor, Tensor]  # h and c [N,D]


def packing(lengths: Tensor, *, size: int, backward: bool = False) -> Packing:
    """The packing of rows with these `lengths` [N], padded to `size`; if `backward`, each row is read from its end."""
    order = lengths.argsort(descending=True, stable=True)
    sorted_lengths = lengths[order]
    steps = torch.arange(int(sorted_lengths[0]))
    has_token = steps[:, None] < sorted_lengths  # [T,N]
    positions = (sorted_lengths - 1 - steps[:, None]) if backward else steps[:, None].expand_as(has_token)
    sizes = tuple(has_token.sum(dim=1).tolist())
    starts = torch.tensor([0, *accumulate(sizes)])
    last = torch.empty_like(lengths)
    last[order] = starts[sorted_lengths - 1] + torch.arange(len(lengths))
    return Packing((order * size + positions)[has_token], sizes, last)


def packed_lstm(
    inputs: Tensor, lengths: Tensor, *, weights: tuple[Tensor, Tensor], bias: Tensor, backward: bool = False
) -> PackedStates:
    """The states of an LSTM from a zero state over `inputs` [N,S,E] with `lengths` [N], on the CPU.

    `weights` are the input weights [4D,E] and the recurrent weights [4D,D], with the gates in the order i f g o; `bias`
    [4D] is the sum of both biases.
    """
    rows, size, _ = inputs.shape
    packed = packing(lengths, size=size, backward=backward)
    tokens = inputs.flatten(0, 1).index_select(0, packed.places)
    projected = F.linear(tokens, weights[0], bias)
    hidden, cells = _PackedLSTM.apply(projected, weights[1], packed.sizes)  # type: ignore[no-untyped-call]
    padded = hidden.new_zeros(rows * size, hidden.shape[1]).index_copy(0, packed.places, hidden)
    final = (hidden.index_select(0, packed.last), cells.index_select(0, packed.last))
    return PackedStates(padded.view(rows, size, -1), final)


class _PackedLSTM(torch.autograd.Function):
    """The states h and c [M,D] of an LSTM for all M tokens of packed rows, with a hand-written gradient.

    Given the contributions [M,4D] of the inputs to the gates and the recurrent weights: i, f, o = σ(…), g = tanh(…),
    and cₜ = f cₜ₋₁ + i g, hₜ = o tanh cₜ.
    """

    @staticmethod
    def forward(ctx: Any, projected: Tensor, weight: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", enabled=False):
            wide = torch.promote_types(projected.dtype, torch.float32)
            matrix = weight.to(projected.dtype)
            gates = projected.to(wide, copy=True)
            width = weight.shape[1]
            hidden, cells = (torch.empty(len(gates), width, dtype=wide) for _ in range(2))
            before = slice(0, 0)
            for start, stop in token_spans(sizes):
                now = slice(start, stop)
                rows = stop - start
                if start:
                    past = slice(before.start, before.start + rows)
                    _add_product(gates[now], hidden[past], matrix.t())
                gates[now, : 2 * width].sigmoid_()
                gates[now, 2 * width : 3 * width].tanh_()
                gates[now, 3 * width :].sigmoid_()
                enter, forget, candidate, leave = gates[now].chunk(4, dim=1)
                torch.mul(enter, candidate, out=cells[now])
                if start:
                    cells[now].addcmul_(forget, cells[past])
                torch.tanh(cells[now], out=hidden[now]).mul_(leave)
                before = now
        ctx.save_for_backward(gates, hidden, cells, matrix)
        ctx.sizes, ctx.dtypes = sizes, (projected.dtype, weight.dtype)
        return hidden, cells

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_hidden: Tensor, of_cells: Tensor) -> tuple[Tensor, Tensor, None]:
        gates, hidden, cells, matrix = ctx.saved_tensors
        spans = list(token_spans(ctx.sizes))
        first = ctx.sizes[0]
        past = _past(ctx.sizes)  # [M − N], the packed index of the token before each token after the first of its row
        enter, forget, candidate, leave = gates.chunk(4, dim=1)
        squashed = cells.tanh()
        by_cell = leave * (1 - squashed.square())  # ∂h/∂c
        slopes = torch.empty_like(gates)  # of c, or of h for the output gate, by the gates before their activation
        by_enter, by_forget, by_candidate, by_leave = slopes.chunk(4, dim=1)
        torch.mul(candidate, enter * (1 - enter), out=by_enter)
        by_forget[:first] = 0
        torch.mul(cells.index_select(0, past), (forget * (1 - forget))[first:], out=by_forget[first:])
        torch.mul(enter, 1 - candidate.square(), out=by_candidate)
        torch.mul(squashed, leave * (1 - leave), out=by_leave)
        of_cells, of_hidden = of_cells.clone(), of_hidden.clone()
        for number, (start, stop) in reversed(list(enumerate(spans))):
            now = slice(start, stop)
            of_cells[now].addcmul_(of_hidden[now], by_cell[now])
            by_enter[now] *= of_cells[now]
            by_forget[now] *= of_cells[now]
            by_candidate[now] *= of_cells[now]
            by_leave[now] *= of_hidden[now]
            if number:
                before = spans[number - 1][0]
                earlier = slice(before, before + stop - start)
                _add_product(of_hidden[earlier], slopes[now], matrix)
                of_cells[earlier].addcmul_(of_cells[now], forget[now])
        projected, weight = ctx.dtypes
        later = slopes[first:].to(matrix.dtype)
        of_weight = later.t() @ hidden.index_select(0, past).to(matrix.dtype)
        return slopes.to(projected), of_weight.to(weight), None


def token_spans(sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    """The packed indices at which the tokens of each step start and stop."""
    stops = list(accumulate(sizes))
    return list(zip([0, *stops[:-1]], stops, strict=True))


def _past(sizes: tuple[int, ...]) -> Tensor:
    """For each token but the first of its row, the packed index of the token before it; `sizes` are rows per step."""
    spans = token_spans(sizes)
    return torch.cat(
        [torch.arange(start, start + size) for (start, _), size in zip(spans[:-1], sizes[1:], strict=True)]
        or [torch.arange(0)]
    )


def _add_product(total: Tensor, values: Tensor, matrix: Tensor) -> None:
    """Adds values @ matrix to `total`; the product is computed in the data type of `matrix`."""
    if total.dtype == matrix.dtype:
        total.addmm_(values, matrix)
    else:
        total += values.to(matrix.dtype) @ matrix
