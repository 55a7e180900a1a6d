"""A step of beam search as one Triton kernel; `fixed_beam.reference_update` is the readable version.

Letters: B sentences, K beams, N = B·K, F finished hypotheses kept per sentence, M tokens that there is room for, C best
tokens per hypothesis.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from calque.layers.overlap_kernel import await_previous, overlap, start_next
from calque.search.fixed_state import Batch, Beams, Plan
from calque.search.step import Best


def update(beams: Beams, batch: Batch, best: Best, *, plan: Plan) -> tuple[Beams, Tensor]:
    """The search state after one more token, updated in place, and the index of each hypothesis's parent [N]."""
    count, width = best.tokens.shape[1], plan.beams
    rows = torch.empty_like(beams.last)
    never = (*plan.marks.never, -1, -1)[:2]
    assert len(plan.marks.never) <= 2 and plan.score.beta == 0
    _update[(len(beams.done),)](
        *(part.contiguous() for part in best),
        *(beams.length, beams.live, beams.tokens, beams.parents, *beams.ends, beams.counts, beams.done, beams.cut),
        *(beams.last, rows, *batch.limits, batch.lengths.source_lengths),
        *(plan.score.alpha, plan.score.gamma, plan.score.reward),
        *(beams.tokens.shape[2], beams.ends.scores.shape[1], plan.marks.end, *never),
        is_gnmt=plan.score.normalisation == "gnmt",
        stop_after=-1 if plan.stop_after is None else plan.stop_after,
        width=width,
        width_block=triton.next_power_of_2(width),
        count=count,
        block=triton.next_power_of_2(width * count),
        kept_block=triton.next_power_of_2(plan.nbest),
        num_warps=1,
        **overlap(beams.live),
    )
    return beams, rows


@triton.jit
def _penalty(length, alpha, is_gnmt: tl.constexpr):
    base = length.to(tl.float32)
    if is_gnmt:
        base = (5.0 + base) / 6.0
    return tl.exp(alpha * tl.log(base))


@triton.jit
def _update(
    best_log_probs,
    best_tokens,
    best_ends,
    lengths,
    live,
    history,
    parents,
    end_scores,
    end_log_probs,
    end_lengths,
    end_slots,
    counts,
    done,
    cut,
    last,
    rows,
    maximum,
    minimum,
    source_lengths,
    alpha,
    gamma,
    reward,
    room,
    kept,
    end,
    never,
    never_either,
    is_gnmt: tl.constexpr,
    stop_after: tl.constexpr,
    width: tl.constexpr,
    width_block: tl.constexpr,
    count: tl.constexpr,
    block: tl.constexpr,
    kept_block: tl.constexpr,
    overlaps: tl.constexpr,
):
    start_next(overlaps)
    await_previous(overlaps)
    sentence = tl.program_id(0).to(tl.int64)
    column = tl.load(lengths + sentence)
    length = column + 1
    longest, shortest = tl.load(maximum + sentence), tl.load(minimum + sentence)
    was_done = tl.load(done + sentence) != 0
    source = tl.load(source_lengths + sentence).to(tl.float32)

    # The log-probabilities of all extensions
    places = tl.arange(0, block)
    is_place = places < width * count
    slots = places // count
    row = sentence * width + slots
    values = tl.load(best_log_probs + row * count + places % count, mask=is_place, other=-float("inf"))
    tokens = tl.load(best_tokens + row * count + places % count, mask=is_place, other=0)
    is_forbidden = ((tokens == end) & (length < shortest)) | (tokens == never) | (tokens == never_either)
    values = tl.where(is_forbidden, -float("inf"), values)
    if (length == longest) & (shortest == longest):  # only the end mark is allowed
        ends = tl.load(best_ends + row, mask=is_place, other=-float("inf"))
        values = tl.where(places % count == 0, ends, -float("inf"))
        tokens = tl.where(places % count == 0, end, tokens)
    before = tl.load(live + row, mask=is_place, other=-float("inf"))
    totals = tl.where(is_place & (was_done == 0), before + values, -float("inf"))

    # The 2K best: those that end are inserted into the list of complete hypotheses, K others live on
    numbers, kept_numbers = tl.arange(0, width_block), tl.arange(0, kept_block)
    is_kept = kept_numbers < kept
    grown = tl.full([width_block], -float("inf"), tl.float32)
    grown_parents = tl.zeros([width_block], tl.int32)
    grown_tokens = tl.zeros([width_block], tl.int64)
    filled, ended = 0, tl.load(counts + sentence)
    penalty = _penalty(length, alpha, is_gnmt)
    for rank in range(2 * width):
        value, place = tl.max(totals, axis=0, return_indices=True, return_indices_tie_break_left=True)
        token = tl.sum(tl.where(places == place, tokens, 0), axis=0)
        parent = tl.minimum(place // count, width - 1)
        totals = tl.where(places == place, -float("inf"), totals)
        is_end = token == end
        if is_end & (rank < width) & (value > -float("inf")):
            ended += 1
            score = value / penalty + gamma * source / length + reward * length
            base = sentence * kept + kept_numbers
            scores = tl.load(end_scores + base, mask=is_kept, other=-float("inf"))
            rank_of_end = tl.sum(((scores >= score) & is_kept).to(tl.int32), axis=0)
            is_later = is_kept & (kept_numbers > rank_of_end)
            later_scores = tl.load(end_scores + base - 1, mask=is_later, other=0.0)
            later_log_probs = tl.load(end_log_probs + base - 1, mask=is_later, other=0.0)
            later_lengths = tl.load(end_lengths + base - 1, mask=is_later, other=0)
            later_slots = tl.load(end_slots + base - 1, mask=is_later, other=0)
            tl.debug_barrier()
            is_here = kept_numbers == rank_of_end
            is_changed = is_kept & (kept_numbers >= rank_of_end)
            tl.store(end_scores + base, tl.where(is_here, score, later_scores), mask=is_changed)
            tl.store(end_log_probs + base, tl.where(is_here, value, later_log_probs), mask=is_changed)
            tl.store(end_lengths + base, tl.where(is_here, length, later_lengths), mask=is_changed)
            tl.store(end_slots + base, tl.where(is_here, parent, later_slots), mask=is_changed)
            tl.debug_barrier()
        if (is_end == 0) & (filled < width):
            is_slot = numbers == filled
            grown = tl.where(is_slot, value, grown)
            grown_parents = tl.where(is_slot, parent.to(tl.int32), grown_parents)
            grown_tokens = tl.where(is_slot, token.to(tl.int64), grown_tokens)
            filled += 1

    # Which hypotheses can still win, and whether the search for this sentence is over
    if stop_after < 0:
        worst = tl.load(end_scores + sentence * kept + kept - 1)
        bound = grown / _penalty(longest, alpha, is_gnmt) + gamma * source / (length + 1) + reward * longest
        grown = tl.where(bound <= worst, -float("inf"), grown)
    at_maximum = length >= longest
    is_over = tl.max(grown, axis=0) == -float("inf")
    if stop_after >= 0:
        is_over = is_over | (ended >= stop_after)
    is_slot = numbers < width
    slot_row = sentence * width + numbers
    if at_maximum & (was_done == 0):
        tl.store(cut + slot_row, tl.load(live + slot_row, mask=is_slot, other=0.0), mask=is_slot)
    is_done = was_done | at_maximum | is_over
    tl.debug_barrier()
    tl.store(live + slot_row, tl.where(is_done, -float("inf"), grown), mask=is_slot)
    tl.store(history + slot_row * room + column, grown_tokens.to(tl.int32), mask=is_slot)
    tl.store(parents + slot_row * room + column, grown_parents, mask=is_slot)
    tl.store(last + slot_row, grown_tokens, mask=is_slot)
    tl.store(rows + slot_row, sentence * width + grown_parents, mask=is_slot)
    tl.store(counts + sentence, ended)
    tl.store(done + sentence, is_done.to(tl.int1))
    tl.store(lengths + sentence, length)
