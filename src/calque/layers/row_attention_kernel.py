"""The functions of `row_attention` as Triton kernels. Letters: N hypotheses, H heads, G key-value heads, d width."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from calque.layers.overlap_kernel import await_previous, overlap, start_next

POSITIONS = 32  # keys that a program reads at a time


def attend_cached(
    queries: Tensor,
    new: tuple[Tensor, Tensor],
    cache: tuple[Tensor, Tensor],
    *,
    ancestors: Tensor,
    position: Tensor,
) -> Tensor:
    """`row_attention.attend_cached` as one kernel: a program per hypothesis and head, with a running softmax."""
    hypotheses, heads, width = queries.shape
    keys, values = cache
    new_keys, new_values = new
    assert keys.stride() == values.stride()
    assert keys.stride(3) == new_keys.stride(2) == new_values.stride(2) == queries.stride(2) == 1
    outputs = torch.empty_like(queries, memory_format=torch.contiguous_format)
    _attend_cached[(hypotheses, heads)](
        queries,
        new_keys,
        new_values,
        keys,
        values,
        ancestors,
        position,
        outputs,
        width**-0.5,
        *queries.stride()[:2],
        *new_keys.stride()[:2],
        *new_values.stride()[:2],
        *keys.stride()[:3],
        ancestors.stride(0),
        *outputs.stride()[:2],
        shared=heads // keys.shape[1],
        width=width,
        width_block=triton.next_power_of_2(width),
        block=POSITIONS,
        num_warps=2,
        **overlap(queries),
    )
    return outputs


@triton.jit
def _attend_cached(
    queries,
    new_keys,
    new_values,
    keys,
    values,
    ancestors,
    position,
    outputs,
    scale,
    query_row,
    query_head,
    new_key_row,
    new_key_head,
    new_value_row,
    new_value_head,
    key_row,
    key_head,
    key_position,
    ancestor_row,
    output_row,
    output_head,
    shared: tl.constexpr,
    width: tl.constexpr,
    width_block: tl.constexpr,
    block: tl.constexpr,
    overlaps: tl.constexpr,
):
    start_next(overlaps)
    await_previous(overlaps)
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    group = head // shared
    columns = tl.arange(0, width_block)
    is_column = columns < width
    length = tl.load(position + row)
    query = tl.load(queries + row * query_row + head * query_head + columns, mask=is_column, other=0.0)
    query = query.to(tl.float32) * scale
    new_key = tl.load(new_keys + row * new_key_row + group * new_key_head + columns, mask=is_column, other=0.0)
    new_value = tl.load(new_values + row * new_value_row + group * new_value_head + columns, mask=is_column, other=0.0)
    if head % shared == 0:
        place = row * key_row + group * key_head + length * key_position + columns
        tl.store(keys + place, new_key, mask=is_column)
        tl.store(values + place, new_value, mask=is_column)
    if head == 0:
        tl.store(ancestors + row * ancestor_row + length, row.to(tl.int32))
    largest = tl.sum(new_key.to(tl.float32) * query, axis=0)
    total = largest * 0.0 + 1.0
    mixed = new_value.to(tl.float32)
    for first in range(0, length, block):
        positions = first + tl.arange(0, block)
        is_position = positions < length
        source = tl.load(ancestors + row * ancestor_row + positions, mask=is_position, other=0).to(tl.int64)
        places = (source * key_row + group * key_head + positions * key_position)[:, None] + columns[None, :]
        is_place = is_position[:, None] & is_column[None, :]
        key = tl.load(keys + places, mask=is_place, other=0.0).to(tl.float32)
        value = tl.load(values + places, mask=is_place, other=0.0).to(tl.float32)
        scores = tl.where(is_position, tl.sum(key * query[None, :], axis=1), -float("inf"))
        raised = tl.maximum(largest, tl.max(scores, axis=0))
        weights = tl.exp(scores - raised)
        shrunk = tl.exp(largest - raised)
        mixed = mixed * shrunk + tl.sum(weights[:, None] * value, axis=0)
        total = total * shrunk + tl.sum(weights, axis=0)
        largest = raised
    result = (mixed / total).to(outputs.dtype.element_ty)
    tl.store(outputs + row * output_row + head * output_head + columns, result, mask=is_column)


def attend_shared(queries: Tensor, keys: Tensor, values: Tensor, *, lengths: Tensor) -> Tensor:
    """`row_attention.attend_shared` as one kernel: a program per sentence and head reads keys for all hypotheses."""
    hypotheses, heads, width = queries.shape
    assert keys.stride() == values.stride() and keys.stride(3) == 1 and queries.stride(2) == 1
    beams = hypotheses // len(keys)
    outputs = torch.empty_like(queries, memory_format=torch.contiguous_format)
    _attend_shared[(len(keys), heads)](
        queries,
        keys,
        values,
        lengths,
        outputs,
        width**-0.5,
        *queries.stride()[:2],
        *keys.stride()[:3],
        *outputs.stride()[:2],
        beams=beams,
        shared=heads // keys.shape[1],
        width=width,
        width_block=max(16, triton.next_power_of_2(width)),
        beam_block=max(16, triton.next_power_of_2(beams)),
        block=POSITIONS,
        exact=queries.dtype == torch.float32,
        num_warps=2,
        **overlap(queries),
    )
    return outputs


@triton.jit
def _attend_shared(
    queries,
    keys,
    values,
    lengths,
    outputs,
    scale,
    query_row,
    query_head,
    key_row,
    key_head,
    key_position,
    output_row,
    output_head,
    beams: tl.constexpr,
    shared: tl.constexpr,
    width: tl.constexpr,
    width_block: tl.constexpr,
    beam_block: tl.constexpr,
    block: tl.constexpr,
    exact: tl.constexpr,
    overlaps: tl.constexpr,
):
    start_next(overlaps)
    await_previous(overlaps)
    sentence, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns, rows = tl.arange(0, width_block), tl.arange(0, beam_block)
    is_column, is_row = columns < width, rows < beams
    length = tl.load(lengths + sentence)
    cells = is_row[:, None] & is_column[None, :]
    places = (sentence * beams + rows)[:, None] * query_row + head * query_head + columns[None, :]
    query = tl.load(queries + places, mask=cells, other=0.0)
    largest = tl.full([beam_block], -float("inf"), tl.float32)
    total = tl.zeros([beam_block], tl.float32)
    mixed = tl.zeros([beam_block, width_block], tl.float32)
    precision: tl.constexpr = "ieee" if exact else "tf32"
    for first in range(0, length, block):
        positions = first + tl.arange(0, block)
        is_position = positions < length
        offsets = sentence * key_row + (head // shared) * key_head + positions * key_position
        is_place = is_position[:, None] & is_column[None, :]
        key = tl.load(keys + offsets[:, None] + columns[None, :], mask=is_place, other=0.0)
        value = tl.load(values + offsets[:, None] + columns[None, :], mask=is_place, other=0.0)
        scores = tl.dot(query, tl.trans(key), input_precision=precision) * scale
        scores = tl.where(is_position[None, :], scores, -float("inf"))
        raised = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp(scores - raised[:, None])
        shrunk = tl.exp(largest - raised)
        total = total * shrunk + tl.sum(weights, axis=1)
        mixed = mixed * shrunk[:, None] + tl.dot(weights.to(value.dtype), value, input_precision=precision)
        largest = raised
    result = (mixed / total[:, None]).to(outputs.dtype.element_ty)
    places = (sentence * beams + rows)[:, None] * output_row + head * output_head + columns[None, :]
    tl.store(outputs + places, result, mask=cells)
