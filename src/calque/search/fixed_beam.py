"""Plain beam search on tensors of fixed shape: a step waits for nothing, so that a GPU can replay it as a graph.

`beam.beam_search` is the clear version that it is tested against. Several steps are taken at a time before the host
asks which sentences are done. Until then, all K hypotheses of every sentence are read; then the sentences that are done
are removed, if half of the batch is done, and the tensors are enlarged if the next steps need more room.

Letters: B sentences, K beams, N = B·K, F finished hypotheses kept per sentence, M tokens that there is room for, C best
tokens per hypothesis.
"""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional as F

from calque.search.beam import (
    Finished,
    Goal,
    cut_hypotheses,
    finished_hypotheses,
    gather_candidates,
    no_finished,
)
from calque.search.observers import NO_HOOKS, Hooks
from calque.search.scoring import Scoring, SentenceLengths
from calque.search.step import Best, BestStep, Hypothesis, Limits, Live, Marks, allowed_best
from calque.tensors import best_candidates, move_rows, select_rows

STEPS = 4  # that are taken before the host asks which sentences are done


@runtime_checkable
class FixedStep(BestStep, Protocol):
    """A step function whose states can have fixed shapes."""

    def fixed(self, state: Any, *, size: int) -> Any | None:
        """The initial state with room for `size` tokens per hypothesis; None if the model has no such state."""
        ...


class Batch(NamedTuple):
    """What stays the same during the search for a batch: rows are sentences."""

    sentence: Tensor  # [B], index in the initial batch
    limits: Limits
    lengths: SentenceLengths
    context: Any


class Beams(NamedTuple):
    """The state of beam search in tensors of fixed shape."""

    length: Tensor  # [1], the number of tokens that have been read
    live: Live  # tokens are [B,K,M]
    finished: Finished  # tokens are [B,F,M]
    counts: Tensor  # [B], number of hypotheses that have ended so far
    done: Tensor  # [B]
    cut: Live  # the hypotheses that reached the maximum length, before its last token; −∞ until then
    last: Tensor  # [N], the tokens to read next
    state: Any


class Plan(NamedTuple):
    """The settings of a search that are the same for all batches."""

    beams: int
    score: Scoring
    nbest: int
    stop_after: int | None
    marks: Marks


Advance = Callable[[Beams, Batch], Beams]
Run = Callable[[Advance, Hashable, Beams, Batch], Beams]
"""How several steps are taken: a function of the step, a key that tells it from others, the search state and the batch.

It may return the same tensors at every call, with other values."""


def run_plainly(advance: Advance, _key: Hashable, beams: Beams, batch: Batch) -> Beams:
    """Takes the steps one operation after the other."""
    for _ in range(STEPS):
        beams = advance(beams, batch)
    return beams


def fixed_beam_search(
    step: FixedStep,
    state: Any,
    context: Any,
    *,
    beams: int,
    goal: Goal,
    limits: Limits,
    marks: Marks,
    source_lengths: Tensor,
    sentences: int | None = None,
    hooks: Hooks = NO_HOOKS,
    run: Run = run_plainly,
) -> list[list[Hypothesis]]:
    """What `beam_search` returns with the expansion `BestK(beams)` and a score that needs no coverage.

    Only the first `sentences` of the batch are searched for, by default all: others fill it up to a usual size. Of
    candidates with equal log-probabilities, the order may differ from that of `beam_search` if they are equal only
    after rounding.
    """
    assert isinstance(goal.score, Scoring)
    plan = Plan(beams, goal.score, goal.nbest, goal.stop_after, marks)
    batch = Batch(
        torch.arange(len(source_lengths), device=source_lengths.device),
        limits,
        SentenceLengths(source_lengths, limits.maximum),
        context,
    )
    longest, count = int(limits.maximum.max()), len(source_lengths) if sentences is None else sentences
    size = usual_size(min(longest, int(source_lengths.max()) * 3 // 2 + STEPS)) + STEPS
    found = start_fixed(step, state, batch, plan=plan, size=size, sentences=count)

    def advance(found: Beams, batch: Batch) -> Beams:
        return fixed_beam_step(step, found, batch, plan=plan)

    results: dict[int, list[Hypothesis]] = {}
    length = 0
    while True:
        if length + STEPS > size:
            size = usual_size(size + 1) + STEPS
            found, batch = moved(found, batch, batch.sentence.new_tensor(range(len(batch.sentence))), size=size)
        if (abandoned := hooks.given_up(batch.sentence)) is not None:
            found = found._replace(done=found.done | abandoned)
        found = run(advance, (plan, type(step)), found, batch)
        length += STEPS
        done = found.done.tolist()
        left = done.count(False)
        smaller = usual_size(left)
        if left and 2 * smaller > len(done):
            continue
        results |= results_of_done(found, batch, plan=plan)
        if not left:
            break
        order = sorted(range(len(done)), key=done.__getitem__)[:smaller]  # those that are left come first
        found, batch = moved(found, batch, batch.sentence.new_tensor(sorted(order)), size=size)
    return [results[sentence] for sentence in range(count)]


def usual_size(number: int) -> int:
    """The smallest power of 2, or 3 times a power of 2, that is at least `number`: few different sizes occur."""
    power = 1 << max(0, number - 1).bit_length()
    return power * 3 // 4 if power >= 4 and power * 3 // 4 >= number else power


def start_fixed(step: FixedStep, state: Any, batch: Batch, *, plan: Plan, size: int, sentences: int) -> Beams:
    """The search state before the first token, given the model's initial state with one row per sentence."""
    count, device = len(batch.sentence), batch.sentence.device
    rows = torch.arange(count, device=device).repeat_interleave(plan.beams)
    first = torch.full((count, plan.beams), -torch.inf, device=device)
    first[:, 0] = 0
    tokens = batch.sentence.new_zeros(count, plan.beams, size)
    nothing = Live(torch.full_like(first, -torch.inf), tokens)
    return Beams(
        batch.sentence.new_zeros(1),
        Live(first, tokens),
        no_finished(first, nbest=plan.nbest, longest=size),
        torch.zeros_like(batch.sentence),
        batch.sentence >= sentences,
        nothing,
        torch.full_like(rows, plan.marks.start),
        step.fixed(select_rows(state, rows), size=size),
    )


def fixed_beam_step(step: BestStep, beams: Beams, batch: Batch, *, plan: Plan) -> Beams:
    """The search state after one more token."""
    width, score, marks = plan.beams, plan.score, plan.marks
    count = 2 * width + len(marks.never) + 1  # so that 2K remain if special tokens are among the best
    before, length = beams.live, beams.length + 1
    best, state = step.best(beams.last, beams.state, batch.context, slots=None, count=count, end=marks.end)
    values, parents, tokens = _candidates(beams, batch, best, plan=plan, length=length)
    is_end = tokens == marks.end
    ended = Live(
        values.masked_fill(~is_end, -torch.inf)[:, :width], gather_candidates(before.tokens, parents[:, :width])
    )
    scores = score.finished(ended.log_probs, length=length, covered=None, lengths=batch.lengths)
    finished = _merged(beams.finished, ended, scores=scores, length=length)
    counts = beams.counts + (ended.log_probs > -torch.inf).sum(dim=1)
    chosen = is_end.long().sort(dim=1, stable=True).indices[:, :width]  # the first K that do not end
    log_probs = values.masked_fill(is_end, -torch.inf).gather(1, chosen)
    parents, tokens = parents.gather(1, chosen), tokens.gather(1, chosen)
    if plan.stop_after is None:
        bounds = score.bound(log_probs.flatten(), length=length, lengths=_of_rows(batch.lengths, width))
        log_probs = log_probs.masked_fill(bounds.view_as(log_probs) <= finished.scores[:, -1:], -torch.inf)
    at_maximum = length >= batch.limits.maximum
    is_over = (log_probs == -torch.inf).all(dim=1)  # no hypothesis is left that could still win
    if plan.stop_after is not None:
        is_over = is_over | (counts >= plan.stop_after)
    is_cut = (at_maximum & ~beams.done)[:, None]
    cut = Live(
        torch.where(is_cut, before.log_probs, beams.cut.log_probs),
        torch.where(is_cut[..., None], before.tokens, beams.cut.tokens),
    )
    done = beams.done | at_maximum | is_over
    grown = gather_candidates(before.tokens, parents).index_copy(2, beams.length, tokens[..., None])
    live = Live(log_probs.masked_fill(done[:, None], -torch.inf), grown)
    rows = (torch.arange(len(parents), device=parents.device)[:, None] * width + parents).flatten()
    return Beams(length, live, finished, counts, done, cut, tokens.flatten(), select_rows(state, rows))


def _candidates(beams: Beams, batch: Batch, best: Best, *, plan: Plan, length: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The log-probabilities of the 2K best extensions [B,2K], the hypotheses that they extend, and their tokens."""
    log_probs, tokens = allowed_best(best, marks=plan.marks, length=length, limits=_of_rows(batch.limits, plan.beams))
    live = beams.live.log_probs.masked_fill(beams.done[:, None], -torch.inf)
    totals = live[..., None] + log_probs.view(*live.shape, -1)
    values, indices = best_candidates(totals.flatten(1), count=2 * plan.beams)
    return values, indices // totals.shape[2], tokens.view(len(live), -1).gather(1, indices)


def _of_rows(parts: Any, width: int) -> Any:
    """Tensors [B] repeated for each of K hypotheses, [N]."""
    return type(parts)(*(part[:, None].expand(-1, width).flatten() for part in parts))


def _merged(finished: Finished, ended: Live, *, scores: Tensor, length: Tensor) -> Finished:
    """The best complete hypotheses, out of those finished before and those that end at this step."""
    both = Finished(
        torch.cat([finished.scores, scores], dim=1),
        torch.cat([finished.log_probs, ended.log_probs], dim=1),
        torch.cat([finished.lengths, length.expand(scores.shape)], dim=1),
        torch.cat([finished.tokens, ended.tokens], dim=1),
    )
    order = both.scores.sort(dim=1, descending=True, stable=True).indices[:, : finished.scores.shape[1]]
    return Finished(*(gather_candidates(part, order) for part in both))


def moved(beams: Beams, batch: Batch, sentences: Tensor, *, size: int) -> tuple[Beams, Batch]:
    """The search state of these sentences alone, with room for `size` tokens."""
    width, extra = beams.live.log_probs.shape[1], size - beams.live.tokens.shape[2]
    rows = (sentences[:, None] * width + torch.arange(width, device=sentences.device)).flatten()
    length, live, finished, counts, done, cut, last, state = beams
    live, finished, counts, done, cut = select_rows((live, finished, counts, done, cut), sentences)
    live, cut = (part._replace(tokens=F.pad(part.tokens, (0, extra))) for part in (live, cut))
    finished = finished._replace(tokens=F.pad(finished.tokens, (0, extra)))
    last, state = last.index_select(0, rows), move_rows(state, rows, size=size)
    return Beams(length, live, finished, counts, done, cut, last, state), select_rows(batch, sentences)


def results_of_done(beams: Beams, batch: Batch, *, plan: Plan) -> dict[int, list[Hypothesis]]:
    """The results of the sentences that are done, by their indices in the initial batch."""
    finished, cut, done, sentence, lengths = _on_host(
        (beams.finished, beams.cut, beams.done, batch.sentence, batch.lengths)
    )
    results = {}
    for row in done.nonzero().squeeze(1).tolist():
        own = slice(row, row + 1)
        hypotheses = finished_hypotheses(Finished(*(part[own] for part in finished)))
        if bool((cut.log_probs[row] > -torch.inf).any()):
            size = int(lengths.maximum[row]) - 1
            hypotheses += cut_hypotheses(
                Live(cut.log_probs[own], cut.tokens[own, :, :size]),
                SentenceLengths(*(part[own] for part in lengths)),
                missing=None,
                score=plan.score,
                size=size,
                exclude=hypotheses,
            )
        results[int(sentence[row])] = hypotheses[: plan.nbest]
    return results


def _on_host(tree: Any) -> Any:
    if isinstance(tree, Tensor):
        return tree.cpu()
    if tree is None:
        return None
    parts = [_on_host(part) for part in tree]
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
