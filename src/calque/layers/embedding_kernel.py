"""`embedding.embed_at` as a Triton kernel. Letters: N rows, V vocabulary, D width."""

import triton
import triton.language as tl
from torch import Tensor

from calque.layers.overlap_kernel import await_previous, overlap, start_next


def embed_at(tokens: Tensor, weight: Tensor, *, positions: Tensor, table: Tensor, unknown: int) -> Tensor:
    """`embedding.embed_at` as one kernel: a program per row. `unknown` replaces ids outside the vocabulary."""
    size, width = weight.shape
    assert weight.stride(1) == table.stride(1) == 1
    outputs = weight.new_empty(len(tokens), width)
    _embed_at[(len(tokens),)](
        tokens,
        weight,
        positions,
        table,
        outputs,
        width**0.5,
        weight.stride(0),
        table.stride(0),
        tokens.stride(0),
        positions.stride(0),
        last=len(table) - 1,
        size=size,
        unknown=unknown,
        width=width,
        block=triton.next_power_of_2(width),
        **overlap(outputs),
    )
    return outputs


@triton.jit
def _embed_at(
    tokens,
    weight,
    positions,
    table,
    outputs,
    scale,
    weight_row,
    table_row,
    token_row,
    position_row,
    last: tl.constexpr,
    size: tl.constexpr,
    unknown: tl.constexpr,
    width: tl.constexpr,
    block: tl.constexpr,
    overlaps: tl.constexpr,
):
    start_next(overlaps)
    await_previous(overlaps)
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, block)
    is_column = columns < width
    token = tl.load(tokens + row * token_row).to(tl.int64)
    token = tl.where(token >= size, unknown, token)
    position = tl.minimum(tl.load(positions + row * position_row).to(tl.int64), last)
    vector = tl.load(weight + token * weight_row + columns, mask=is_column, other=0.0)
    scaled = (vector.to(tl.float32) * scale).to(vector.dtype)
    added = tl.load(table + position * table_row + columns, mask=is_column, other=0.0).to(vector.dtype)
    tl.store(outputs + row * width + columns, scaled + added, mask=is_column)
