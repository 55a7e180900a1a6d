"""`few_rows.linear_rows` as a Triton kernel. Letters: N rows, D input width, F output width."""

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

COLUMNS = 16  # outputs of a program: few, so that all of a GPU's processors read the weights
SMALLEST = 16  # inputs of a tile: tl.dot takes no fewer
INPUTS = 512  # inputs that a program reads at a time if it need not normalise them


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
    """`few_rows.linear_rows` as one kernel: each program computes 16 outputs for all rows (at most `tile` rows).

    It rounds to the data type where the plain version does: after the product, the normalisation and the sum.
    """
    rows, width = values.shape
    assert rows <= tile and values.stride(1) == weight.stride(1) == 1
    outputs = values.new_empty(rows, len(weight))
    residual = outputs if added is None else added
    block = max(triton.next_power_of_2(width), SMALLEST)
    _linear_rows[(triton.cdiv(len(weight), COLUMNS),)](
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
        row_block=tile,
        column_block=COLUMNS,
        block=block if norm is not None else min(block, INPUTS),
        residual_block=triton.next_power_of_2(len(weight)),
        has_norm=norm is not None,
        relu=relu,
        has_residual=added is not None,
        has_residual_norm=added_norm is not None,
        exact=values.dtype == torch.float32,
        num_warps=4,
        num_stages=4,
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
):
    rows = tl.arange(0, row_block)
    columns = tl.program_id(0) * column_block + tl.arange(0, column_block)
    is_row, is_column = rows < row_count, columns < size
    precision: tl.constexpr = "ieee" if exact else "tf32"
    total = tl.zeros([row_block, column_block], tl.float32)
    for first in tl.static_range(0, width, block):
        places = first + tl.arange(0, block)
        is_place = places < width
        values = tl.load(
            inputs + rows[:, None] * input_row + places[None, :], mask=is_row[:, None] & is_place[None, :], other=0.0
        )
        if has_norm:
            values = _normalised(values, norm_weight, norm_bias, epsilon, places, is_place, width)
            values = values.to(inputs.dtype.element_ty)
        weights = tl.load(
            weight + columns[:, None] * weight_row + places[None, :],
            mask=is_column[:, None] & is_place[None, :],
            other=0.0,
        )
        total += tl.dot(values, tl.trans(weights), input_precision=precision)
    total += tl.load(bias + columns, mask=is_column, other=0.0).to(tl.float32)[None, :]
    if relu:
        total = tl.maximum(total, 0.0)
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
            mean = tl.sum(whole, axis=1) / size
            centred = tl.where(is_place[None, :], whole - mean[:, None], 0.0)
            scale = tl.rsqrt(tl.sum(centred * centred, axis=1) / size + residual_epsilon)
            own = (own - mean[:, None]) * scale[:, None]
            own *= tl.load(residual_weight + columns, mask=is_column, other=0.0).to(tl.float32)[None, :]
            own += tl.load(residual_bias + columns, mask=is_column, other=0.0).to(tl.float32)[None, :]
            own = own.to(outputs.dtype.element_ty).to(tl.float32)
        total += own
    tl.store(outputs + rows[:, None] * size + columns[None, :], total.to(outputs.dtype.element_ty), mask=cells)


@triton.jit
def _normalised(values, weight, bias, epsilon, places, is_place, width: tl.constexpr):
    wide = values.to(tl.float32)
    mean = tl.sum(wide, axis=1) / width
    centred = tl.where(is_place[None, :], wide - mean[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=1) / width + epsilon)
    scaled = centred * scale[:, None] * tl.load(weight + places, mask=is_place, other=0.0).to(tl.float32)[None, :]
    return scaled + tl.load(bias + places, mask=is_place, other=0.0).to(tl.float32)[None, :]
