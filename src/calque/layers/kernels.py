"""Triton kernels for decoding on a GPU; each has a plain version that it is tested against.

Letters: N hypotheses, R rows of keys, H heads, G key-value heads, P positions, d head width, V vocabulary.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

POSITIONS = 32  # keys that a program of the attention kernel reads at a time
WORDS = 2048  # logits that a program of the vocabulary kernel reads
GROUP = 64  # neighbouring words of which it keeps the largest logit


def attend_rows(queries: Tensor, keys: Tensor, values: Tensor, *, rows: Tensor, lengths: Tensor) -> Tensor:
    """`row_attention.row_attention` as one kernel: a program per hypothesis and head, with a running softmax."""
    hypotheses, heads, width = queries.shape
    assert keys.stride() == values.stride() and keys.stride(3) == 1
    outputs = torch.empty_like(queries, memory_format=torch.contiguous_format)
    _attend_rows[(hypotheses, heads)](
        queries,
        keys,
        values,
        rows,
        lengths,
        outputs,
        width**-0.5,
        *queries.stride()[:2],
        *keys.stride()[:3],
        rows.stride(0),
        rows.stride(1) if rows.dim() == 2 else 0,
        *outputs.stride()[:2],
        shared=heads // keys.shape[1],
        width=width,
        width_block=triton.next_power_of_2(width),
        block=POSITIONS,
        num_warps=2,
    )
    return outputs


@triton.jit
def _attend_rows(  # type: ignore[no-untyped-def]
    queries,
    keys,
    values,
    rows,
    lengths,
    outputs,
    scale,
    query_row,
    query_head,
    key_row,
    key_head,
    key_position,
    rows_row,
    rows_position,
    output_row,
    output_head,
    shared: tl.constexpr,
    width: tl.constexpr,
    width_block: tl.constexpr,
    block: tl.constexpr,
):
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = tl.arange(0, width_block)
    is_column = columns < width
    query = tl.load(queries + row * query_row + head * query_head + columns, mask=is_column, other=0.0)
    query = query.to(tl.float32) * scale
    length = tl.load(lengths + row)
    largest = tl.full([1], -float("inf"), tl.float32)
    total = tl.zeros([1], tl.float32)
    mixed = tl.zeros([width_block], tl.float32)
    for first in range(0, length, block):
        positions = first + tl.arange(0, block)
        is_position = positions < length
        source = tl.load(rows + row * rows_row + positions * rows_position, mask=is_position, other=0).to(tl.int64)
        offsets = source * key_row + (head // shared) * key_head + positions * key_position
        places = offsets[:, None] + columns[None, :]
        is_place = is_position[:, None] & is_column[None, :]
        key = tl.load(keys + places, mask=is_place, other=0.0).to(tl.float32)
        scores = tl.where(is_position, tl.sum(key * query[None, :], axis=1), -float("inf"))
        raised = tl.maximum(largest, tl.max(scores, axis=0))
        weights = tl.exp(scores - raised)
        shrunk = tl.exp(largest - raised)
        value = tl.load(values + places, mask=is_place, other=0.0).to(tl.float32)
        mixed = mixed * shrunk + tl.sum(weights[:, None] * value, axis=0)
        total = total * shrunk + tl.sum(weights, axis=0)
        largest = raised
    result = mixed / total
    tl.store(
        outputs + row * output_row + head * output_head + columns,
        result.to(outputs.dtype.element_ty),
        mask=is_column,
    )


def vocabulary_summary(logits: Tensor, *, vocabulary: int) -> tuple[Tensor, Tensor]:
    """The normaliser log Σ exp [N] of the first V logits [N,≥V], and the largest [N,⌈V/64⌉] of every 64 neighbours.

    The logits are read once.
    """
    count = len(logits)
    programs = triton.cdiv(vocabulary, WORDS)
    groups = logits.new_empty(count, programs * (WORDS // GROUP), dtype=torch.float32)
    largest, totals = (logits.new_empty(count, programs, dtype=torch.float32) for _ in range(2))
    _vocabulary_summary[(count, programs)](
        logits,
        groups,
        largest,
        totals,
        logits.stride(0),
        vocabulary,
        programs,
        words=WORDS,
        group=GROUP,
        num_warps=4,
    )
    peak = largest.amax(dim=1, keepdim=True)
    normaliser = peak.squeeze(1) + (totals * (largest - peak).exp()).sum(dim=1).log()
    return normaliser, groups[:, : triton.cdiv(vocabulary, GROUP)]


@triton.jit
def _vocabulary_summary(  # type: ignore[no-untyped-def]
    logits, groups, largest, totals, stride, vocabulary, programs, words: tl.constexpr, group: tl.constexpr
):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    places = part * words + tl.arange(0, words)
    values = tl.load(logits + row * stride + places, mask=places < vocabulary, other=-float("inf")).to(tl.float32)
    peak = tl.max(values, axis=0)
    tl.store(largest + row * programs + part, peak)
    tl.store(totals + row * programs + part, tl.sum(tl.exp(values - peak), axis=0))
    of_groups = tl.max(tl.reshape(values, [words // group, group]), axis=1)
    slots = part * (words // group) + tl.arange(0, words // group)
    tl.store(groups + row * programs * (words // group) + slots, of_groups)
