"""The functions of `row_linear` as Triton kernels. Letters: N rows, D input width, F output width."""

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from calque.layers.overlap_kernel import await_previous, overlap, start_next

COLUMNS = 16  # outputs of a program: few, so that all of a GPU's processors read the weights
ROW_COLUMNS = 4  # the same for a single row, which needs no tiles
SMALLEST = 16  # inputs of a tile: tl.dot takes no fewer
INPUT_BYTES = 4096  # of a row, read at a time if the program need not normalise it


def linear_rows(
    values: Tensor,
    norm: nn.LayerNorm | None,
    weight: Tensor,
    bias: Tensor,
    *,
    relu: bool,
    added: Tensor | None,
    added_norm: nn.LayerNorm | None,
    tile: int,
) -> Tensor:
    """`row_linear.linear_rows` and `linear_sum` as one kernel: a program computes a few outputs for all rows.

    There are at most `tile` rows. The kernel rounds to the data type where the plain version does: after the product,
    the normalisation and the sum.
    """
    rows, width = values.shape
    assert rows <= tile and values.stride(1) == weight.stride(1) == 1
    outputs = values.new_empty(rows, len(weight))
    residual = outputs if added is None else added
    block = max(triton.next_power_of_2(width), SMALLEST)
    columns = ROW_COLUMNS if rows == 1 else COLUMNS
    _linear_rows[(triton.cdiv(len(weight), columns),)](
        values,
        values if norm is None else norm.weight,
        values if norm is None else norm.bias,
        weight,
        bias,
        residual,
        residual if added_norm is None else added_norm.weight,
        residual if added_norm is None else added_norm.bias,
        outputs,
        rows,
        0.0 if norm is None else norm.eps,
        0.0 if added_norm is None else added_norm.eps,
        values.stride(0),
        weight.stride(0),
        residual.stride(0),
        width=width,
        size=len(weight),
        row_block=1 if rows == 1 else tile,
        column_block=columns,
        block=block if norm is not None else min(block, INPUT_BYTES // values.element_size()),
        residual_block=triton.next_power_of_2(len(weight)),
        has_norm=norm is not None,
        relu=relu,
        has_residual=added is not None,
        has_residual_norm=added_norm is not None,
        exact=values.dtype == torch.float32,
        num_warps=4 if width <= 1024 else 8,
        num_stages=4,
        **overlap(values),
    )
    return outputs


@triton.jit
def _linear_rows(
    inputs,
    norm_weight,
    norm_bias,
    weight,
    bias,
    residual,
    residual_weight,
    residual_bias,
    outputs,
    row_count,
    epsilon,
    residual_epsilon,
    input_row,
    weight_row,
    residual_row,
    width: tl.constexpr,
    size: tl.constexpr,
    row_block: tl.constexpr,
    column_block: tl.constexpr,
    block: tl.constexpr,
    residual_block: tl.constexpr,
    has_norm: tl.constexpr,
    relu: tl.constexpr,
    has_residual: tl.constexpr,
    has_residual_norm: tl.constexpr,
    exact: tl.constexpr,
    overlaps: tl.constexpr,
):
    rows = tl.arange(0, row_block)
    columns = tl.program_id(0) * column_block + tl.arange(0, column_block)
    is_row, is_column = rows < row_count, columns < size
    precision: tl.constexpr = "ieee" if exact else "tf32"
    total = tl.zeros([row_block, column_block], tl.float32)
    start_next(overlaps)
    for first in tl.static_range(0, width, block):
        places = first + tl.arange(0, block)
        is_place = places < width
        weights = tl.load(
            weight + columns[:, None] * weight_row + places[None, :],
            mask=is_column[:, None] & is_place[None, :],
            other=0.0,
        )
        if first == 0:
            await_previous(overlaps)
        values = tl.load(
            inputs + rows[:, None] * input_row + places[None, :], mask=is_row[:, None] & is_place[None, :], other=0.0
        )
        if has_norm:
            values = _normalised(values, norm_weight, norm_bias, epsilon, places, is_place, width)
            values = values.to(inputs.dtype.element_ty)
        if row_block == 1:
            total += tl.sum(values.to(tl.float32) * weights.to(tl.float32), axis=1)[None, :]
        else:
            total += tl.dot(values, tl.trans(weights), input_precision=precision)
    total += tl.load(bias + columns, mask=is_column, other=0.0).to(tl.float32)[None, :]
    if relu:
        total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
    total = total.to(outputs.dtype.element_ty).to(tl.float32)
    cells = is_row[:, None] & is_column[None, :]
    if has_residual:
        own = tl.load(residual + rows[:, None] * residual_row + columns[None, :], mask=cells, other=0.0).to(tl.float32)
        if has_residual_norm:
            places = tl.arange(0, residual_block)
            is_place = places < size
            whole = tl.load(
                residual + rows[:, None] * residual_row + places[None, :],
                mask=is_row[:, None] & is_place[None, :],
                other=0.0,
            ).to(tl.float32)
            mean, scale = _moments(whole, residual_epsilon, is_place, size)
            own = (own - mean[:, None]) * scale[:, None]
            own *= tl.load(residual_weight + columns, mask=is_column, other=0.0).to(tl.float32)[None, :]
            own += tl.load(residual_bias + columns, mask=is_column, other=0.0).to(tl.float32)[None, :]
            own = own.to(outputs.dtype.element_ty).to(tl.float32)
        total += own
    tl.store(outputs + rows[:, None] * size + columns[None, :], total.to(outputs.dtype.element_ty), mask=cells)


@triton.jit
def _normalised(values, weight, bias, epsilon, places, is_place, width: tl.constexpr):
    """Layer norm of rows [·,D]."""
    wide = values.to(tl.float32)
    mean, scale = _moments(wide, epsilon, is_place, width)
    centred = tl.where(is_place[None, :], wide - mean[:, None], 0.0)
    scaled = centred * scale[:, None] * tl.load(weight + places, mask=is_place, other=0.0).to(tl.float32)[None, :]
    return scaled + tl.load(bias + places, mask=is_place, other=0.0).to(tl.float32)[None, :]


@triton.jit
def _moments(values, epsilon, is_place, width: tl.constexpr):
    """The means of rows [·,D], and one over their standard deviations."""
    mean = tl.sum(values, axis=1) / width
    centred = tl.where(is_place[None, :], values - mean[:, None], 0.0)
    return mean, tl.rsqrt(tl.sum(centred * centred, axis=1) / width + epsilon)


def add_norm(outputs: Tensor, stream: Tensor, *, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    """The sum of two tensors [N,F], and the normalised sum."""
    rows, size = outputs.shape
    assert outputs.is_contiguous() and stream.stride(1) == 1
    total, normalised = torch.empty_like(outputs), torch.empty_like(outputs)
    _add_norm[(rows,)](
        outputs,
        stream,
        norm.weight,
        norm.bias,
        total,
        normalised,
        norm.eps,
        stream.stride(0),
        size=size,
        block=triton.next_power_of_2(size),
        num_warps=4,
    )
    return total, normalised


@triton.jit
def _add_norm(
    outputs,
    stream,
    weight,
    bias,
    total,
    normalised,
    epsilon,
    stream_row,
    size: tl.constexpr,
    block: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, block)
    is_place = places < size
    values = tl.load(outputs + row * size + places, mask=is_place, other=0.0).to(tl.float32)
    values += tl.load(stream + row * stream_row + places, mask=is_place, other=0.0).to(tl.float32)
    rounded = values.to(total.dtype.element_ty)
    tl.store(total + row * size + places, rounded, mask=is_place)
    result = _normalised(rounded[None, :], weight, bias, epsilon, places, is_place, size)
    result = tl.reshape(result, [block]).to(normalised.dtype.element_ty)
    tl.store(normalised + row * size + places, result, mask=is_place)
