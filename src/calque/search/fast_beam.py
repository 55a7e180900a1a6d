"""Plain beam search that computes less; `beam.beam_search` is the reference that it is tested against.

It asks the model for the few best tokens of each hypothesis instead of all log-probabilities, and the model reads only
the hypotheses that are left: hypotheses of finished sentences, and those that can no longer win, cost no time.

Letters: B sentences, K beams, N hypotheses that are left (at most B·K), C best tokens per hypothesis.
"""

from typing import Any

import torch
from torch import Tensor

from calque.search.beam import BatchState, Extended, Goal, conclude, is_done, results_of, select_candidates, start
from calque.search.observers import NO_HOOKS, Hooks
from calque.search.step import Best, BestStep, Hypothesis, Limits, Marks, allowed_best, is_worth_removing
from calque.tensors import Slots, best_candidates, select_rows


def fast_beam_search(
    step: BestStep,
    state: Any,
    context: Any,
    *,
    beams: int,
    goal: Goal,
    limits: Limits,
    marks: Marks,
    source_lengths: Tensor,
    hooks: Hooks = NO_HOOKS,
) -> list[list[Hypothesis]]:
    """The result of `beam_search` with the expansion `BestK(beams)` and a score that needs no coverage.

    Candidates whose log-probabilities are equal only after rounding may be ordered differently than in `beam_search`.
    """
    batch = start(limits, source_lengths, memory=None, nbest=goal.nbest)
    slots: Slots | None = None
    last = torch.full_like(batch.sentence, marks.start)
    has_result = torch.zeros_like(batch.sentence, dtype=torch.bool)
    results: dict[int, list[Hypothesis]] = {}
    count = 2 * beams + len(marks.never) + 1  # so that 2K remain if special tokens are among the best
    for length in range(1, int(limits.maximum.max()) + 1):
        best, state = step.best(last, state, context, slots=slots, count=count, end=marks.end)
        previous = batch
        extended = _extend(batch, best, slots=slots, beams=beams, marks=marks, length=length)
        batch, extended, _ = conclude(batch, extended, goal=goal, prunes=True, length=length)
        done = is_done(batch, goal=goal, length=length) | has_result
        if (abandoned := hooks.given_up(batch.sentence)) is not None:
            done = done | abandoned
        if bool((done & ~has_result).any()):
            results |= results_of(
                batch, previous.live, done & ~has_result, missing_phrase=None, goal=goal, length=length
            )
        is_left = (batch.live.log_probs != -torch.inf) & ~done[:, None]  # not a number: read on, as `beam_search` does
        batch = batch._replace(
            live=batch.live._replace(log_probs=batch.live.log_probs.masked_fill(~is_left, -torch.inf))
        )
        left = is_left.flatten().nonzero().squeeze(1)
        if len(left) == 0:
            break
        state = select_rows(
            state, _parent_rows(extended.parents, left, slots=slots, width=previous.live.log_probs.shape[1])
        )
        last = batch.live.tokens[:, :, -1].flatten()[left]
        has_result = done
        if is_worth_removing(int(done.sum()), of=len(done)):
            remaining = (~done).nonzero().squeeze(1)
            batch, context, has_result, is_left = select_rows((batch, context, has_result, is_left), remaining)
            left = is_left.flatten().nonzero().squeeze(1)
        slots = None if len(left) == is_left.numel() else Slots(left, is_left.shape[1])
    return [results[sentence] for sentence in sorted(results)]


def _extend(batch: BatchState, best: Best, *, slots: Slots | None, beams: int, marks: Marks, length: int) -> Extended:
    """The `beams` best extensions of each sentence's live hypotheses, given the `best` next tokens of those in `slots`.

    Hypotheses that are not in `slots` can no longer win and are not extended. If `slots` is None, all are extended.
    """
    live = batch.live
    sentences, width = live.log_probs.shape
    rows = torch.arange(sentences * width, device=best.tokens.device) if slots is None else slots.places
    row_limits = Limits(*(part[rows // width] for part in batch.limits))
    log_probs, tokens = allowed_best(best, marks=marks, length=length, limits=row_limits)
    if slots is not None:
        log_probs = log_probs.new_full((sentences * width, log_probs.shape[1]), -torch.inf).index_copy_(
            0, rows, log_probs
        )
        tokens = tokens.new_zeros(log_probs.shape).index_copy_(0, rows, tokens)
    totals = live.log_probs[..., None] + log_probs.view(sentences, width, -1)
    values, indices = best_candidates(totals.flatten(1), count=2 * beams)
    chosen = tokens.view(sentences, -1).gather(1, indices)
    return select_candidates(
        live, values, parents=indices // totals.shape[2], tokens=chosen, beams=beams, end=marks.end
    )


def _parent_rows(parents: Tensor, left: Tensor, *, slots: Slots | None, width: int) -> Tensor:
    """For each hypothesis in `left`, its parent's row in the model's state; `parents` [B,K] are previous beams."""
    sentence = torch.arange(len(parents), device=parents.device)[:, None]
    flat = (sentence * width + parents).flatten()[left]
    if slots is None:
        return flat
    row_of = torch.zeros(len(parents) * width, dtype=torch.long, device=parents.device)
    row_of[slots.places] = torch.arange(len(slots.places), device=parents.device)
    return row_of[flat]
