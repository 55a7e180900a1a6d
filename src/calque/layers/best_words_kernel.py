"""The most likely words as Triton kernels (see `best_words`). Letters: N rows, V vocabulary, C best words."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from calque.layers.overlap_kernel import await_previous, overlap, start_next

WORDS = 2048  # logits that a program of the first kernel reads
GROUP = 64  # neighbouring words, of which it keeps the largest logit


def best_words(logits: Tensor, *, count: int, end: int) -> tuple[Tensor, Tensor, Tensor]:
    """`best_words.best_words` as two kernels: one reads all logits once, the other only the groups with the best words.

    The first kernel keeps the largest of every 64 neighbouring logits. The second takes the largest of these `count`
    times, each time replacing it by the next largest logit of its group.
    """
    rows, vocabulary = logits.shape
    programs, groups = triton.cdiv(vocabulary, WORDS), triton.cdiv(vocabulary, GROUP)
    peaks = logits.new_empty(rows, programs * (WORDS // GROUP), dtype=torch.float32)
    largest, totals = (logits.new_empty(rows, programs, dtype=torch.float32) for _ in range(2))
    _summarise[(rows, programs)](
        *(logits, peaks, largest, totals, logits.stride(0), vocabulary, programs),
        words=WORDS,
        group=GROUP,
        num_warps=4,
        **overlap(logits),
    )
    log_probs = logits.new_empty(rows, count, dtype=torch.float32)
    words = logits.new_empty(rows, count, dtype=torch.long)
    ends = logits.new_empty(rows, dtype=torch.float32)
    _take_best[(rows,)](
        *(logits, peaks, largest, totals, log_probs, words, ends),
        *(logits.stride(0), peaks.stride(0), vocabulary, groups, programs, end),
        count=count,
        group=GROUP,
        group_block=triton.next_power_of_2(groups),
        program_block=triton.next_power_of_2(programs),
        num_warps=1,
        **overlap(logits),
    )
    return log_probs, words, ends


@triton.jit
def _summarise(
    logits,
    peaks,
    largest,
    totals,
    stride,
    vocabulary,
    programs,
    words: tl.constexpr,
    group: tl.constexpr,
    overlaps: tl.constexpr,
):
    start_next(overlaps)
    await_previous(overlaps)
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    places = part * words + tl.arange(0, words)
    values = tl.load(logits + row * stride + places, mask=places < vocabulary, other=-float("inf")).to(tl.float32)
    peak = tl.max(values, axis=0)
    tl.store(largest + row * programs + part, peak)
    tl.store(totals + row * programs + part, tl.sum(tl.exp(values - peak), axis=0))
    of_groups = tl.max(tl.reshape(values, [words // group, group]), axis=1)
    slots = part * (words // group) + tl.arange(0, words // group)
    tl.store(peaks + row * programs * (words // group) + slots, of_groups)


@triton.jit
def _take_best(
    logits,
    peaks,
    largest,
    totals,
    log_probs,
    words,
    ends,
    stride,
    peak_stride,
    vocabulary,
    groups,
    programs,
    end,
    count: tl.constexpr,
    group: tl.constexpr,
    group_block: tl.constexpr,
    program_block: tl.constexpr,
    overlaps: tl.constexpr,
):
    start_next(overlaps)
    await_previous(overlaps)
    row = tl.program_id(0).to(tl.int64)
    parts = tl.arange(0, program_block)
    part_peaks = tl.load(largest + row * programs + parts, mask=parts < programs, other=-float("inf"))
    part_totals = tl.load(totals + row * programs + parts, mask=parts < programs, other=0.0)
    peak = tl.max(part_peaks, axis=0)
    normaliser = peak + tl.log(tl.sum(part_totals * tl.exp(part_peaks - peak), axis=0))
    tl.store(ends + row, tl.load(logits + row * stride + end).to(tl.float32) - normaliser)
    numbers, inner = tl.arange(0, group_block), tl.arange(0, group)
    best = tl.load(peaks + row * peak_stride + numbers, mask=numbers < groups, other=-float("inf"))
    taken = tl.full([group_block], -1, tl.int32)  # of equal logits in a group, the place of the last one taken
    for rank in range(count):
        value, which = tl.max(best, axis=0, return_indices=True, return_indices_tie_break_left=True)
        places = which * group + inner
        members = tl.load(logits + row * stride + places, mask=places < vocabulary, other=-float("inf")).to(tl.float32)
        last = tl.sum(tl.where(numbers == which, taken, 0), axis=0)
        place = tl.min(tl.where((members == value) & (inner > last), inner, group - 1), axis=0)
        is_left = (members < value) | ((members == value) & (inner > place))
        following = tl.max(tl.where(is_left, members, -float("inf")), axis=0)
        is_chosen = numbers == which
        best = tl.where(is_chosen, following, best)
        taken = tl.where(is_chosen, tl.where(following == value, place, -1), taken)
        tl.store(log_probs + row * count + rank, value - normaliser)
        tl.store(words + row * count + rank, tl.minimum(which * group + place, vocabulary - 1).to(tl.int64))
