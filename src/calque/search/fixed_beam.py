"""Plain beam search on tensors of fixed shape: steps never wait for the host, so a GPU can replay them as a graph.

`beam.beam_search` is the reference that it is tested against. Several steps are taken at a time before the host asks
which sentences are done. Until then, all K hypotheses of every sentence are read; then the sentences that are done are
removed, if half of the batch is done, and the tensors are enlarged if the next steps need more room.

Letters: B sentences, K beams, N = B·K, F finished hypotheses kept per sentence, M tokens that there is room for, C best
tokens per hypothesis.
"""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from calque.search.beam import Goal, cut_hypotheses
from calque.search.fixed_state import Batch, Beams, Ends, Plan
from calque.search.observers import NO_HOOKS, Hooks
from calque.search.scoring import Scoring, SentenceLengths
from calque.search.step import Best, BestStep, Hypothesis, Limits, Live, Marks, allowed_best
from calque.tensors import best_candidates, copied_to_host, map_rows, move_rows, select_rows

STEPS = 4  # that are taken before the host asks which sentences are done


@runtime_checkable
class FixedStep(BestStep, Protocol):
    """A step function whose states can have fixed shapes."""

    def fixed(self, state: Any, *, size: int) -> Any | None:
        """The initial state with room for `size` tokens per hypothesis; None if the model has no such state."""
        ...


Advance = Callable[[Beams, Batch], Beams]
Tree = TypeVar("Tree")


class Runner(Protocol):
    """How functions are run, given a key that identifies them: eagerly, or as graphs (see `graphs`).

    Results are valid until the next call of either method, which may overwrite their tensors.
    """

    def call(self, function: Callable[..., Tree], key: Hashable, *inputs: Any) -> Tree:
        """The result of `function(*inputs)`, where inputs and result are trees of tensors."""
        ...

    def run(self, advance: Advance, key: Hashable, beams: Beams, batch: Batch) -> tuple[Beams, Batch]:
        """The search state after several steps, and the batch."""
        ...


class Eager:
    """Runs functions eagerly, one operation after the other."""

    def call(self, function: Callable[..., Tree], key: Hashable, *inputs: Any) -> Tree:
        return function(*inputs)

    def run(self, advance: Advance, key: Hashable, beams: Beams, batch: Batch) -> tuple[Beams, Batch]:
        for _ in range(STEPS):
            beams = advance(beams, batch)
        return beams, batch


class FixedSteps(NamedTuple):
    """How search on tensors of fixed shape is run."""

    runner: Runner
    sentences: int  # that are translated, at the start of the batch; the rest fills it up to a usual size
    size: int  # tokens per hypothesis that there is room for at first, see `room_for`


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
    fixed: FixedSteps | None = None,
    hooks: Hooks = NO_HOOKS,
) -> list[list[Hypothesis]]:
    """The result of `beam_search` with the expansion `BestK(beams)` and a score that needs no coverage.

    By default, all rows of the batch are translated, and steps are taken eagerly.
    Candidates whose log-probabilities are equal only after rounding may be ordered differently than in `beam_search`.
    """
    assert isinstance(goal.score, Scoring)
    plan, key = Plan(beams, goal.score, goal.nbest, goal.stop_after, marks), type(step)
    if fixed is None:
        room = room_for(int(source_lengths.max()), longest=int(limits.maximum.max()))
        fixed = FixedSteps(Eager(), len(source_lengths), room)
    runner, count, size = fixed

    def start(batch: Batch, state: Any, done: Tensor) -> tuple[Beams, Batch]:
        return start_fixed(step, state, batch, plan=plan, size=size, done=done), batch

    def advance(found: Beams, batch: Batch) -> Beams:
        return fixed_beam_step(step, found, batch, plan=plan)

    sentence = torch.arange(len(source_lengths), device=source_lengths.device)
    batch = Batch(sentence, limits, SentenceLengths(source_lengths, limits.maximum), context)
    found, batch = runner.call(start, (plan, key, size), batch, state, sentence >= count)
    results: dict[int, list[Hypothesis]] = {}
    length = 0
    while True:
        if length + STEPS > size:
            size = usual_size(size + 1) + STEPS
            found, batch = moved(found, batch, batch.sentence.new_tensor(range(len(batch.sentence))), size=size)
        if (abandoned := hooks.given_up(batch.sentence)) is not None:
            found = found._replace(done=found.done | abandoned)
        found, batch = runner.run(advance, (plan, key), found, batch)
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


def room_for(longest_source: int, *, longest: int) -> int:
    """The number of tokens per hypothesis that there is room for at first, given the longest source of a batch.

    `longest` is the maximum length of all translations. Lengths include end marks.
    """
    return usual_size(min(longest, longest_source * 3 // 2 + STEPS)) + STEPS


def usual_size(number: int) -> int:
    """The smallest power of 2, or 3 times a power of 2, that is at least `number`; so only a few sizes occur."""
    power = 1 << max(0, number - 1).bit_length()
    return power * 3 // 4 if power >= 4 and power * 3 // 4 >= number else power


def start_fixed(step: FixedStep, state: Any, batch: Batch, *, plan: Plan, size: int, done: Tensor) -> Beams:
    """The search state before the first token, given the model's initial state with one row per sentence.

    Rows of the batch that are padding are `done` [B] from the start.
    """
    count, device = len(batch.sentence), batch.sentence.device
    rows = torch.arange(count, device=device).repeat_interleave(plan.beams)
    nothing = torch.full((count, plan.beams), -torch.inf, device=device)
    live = nothing.clone()
    live[:, 0] = 0
    tokens = torch.zeros(count, plan.beams, size, dtype=torch.int32, device=device)
    no_end, no_number = nothing.new_full((count, plan.nbest), -torch.inf), tokens.new_zeros(count, plan.nbest)
    zeros, ends = tokens.new_zeros(count), Ends(no_end, no_end, no_number, no_number)
    start_tokens = torch.full_like(rows, plan.marks.start)
    beams = Beams(zeros, live, tokens, tokens, ends, zeros, done, nothing, start_tokens, state=None)
    beams = map_rows(torch.clone, beams)  # a tensor of its own for each
    return beams._replace(state=step.fixed(select_rows(state, rows), size=size))


def fixed_beam_step(step: BestStep, beams: Beams, batch: Batch, *, plan: Plan) -> Beams:
    """The search state after one more token; on a GPU, it is updated in place."""
    count = 2 * plan.beams + len(plan.marks.never) + 1  # so that 2K remain if special tokens are among the best
    best, state = step.best(beams.last, beams.state, batch.context, slots=None, count=count, end=plan.marks.end)
    if beams.live.is_cuda:
        from calque.search.beam_kernel import update  # needs Triton

        beams, rows = update(beams, batch, best, plan=plan)
    else:
        beams, rows = reference_update(beams, batch, best, plan=plan)
    return beams._replace(state=state if plan.beams == 1 else select_rows(state, rows))


def reference_update(beams: Beams, batch: Batch, best: Best, *, plan: Plan) -> tuple[Beams, Tensor]:
    """The search state after one more token, given the best tokens, and the index of each hypothesis's parent [N]."""
    width, score, marks = plan.beams, plan.score, plan.marks
    column = beams.length[:1].long()
    length = column + 1
    values, parents, tokens = _candidates(beams, batch, best, plan=plan, length=length)
    is_end = tokens == marks.end
    ended = values.masked_fill(~is_end, -torch.inf)[:, :width]
    scores = score.finished(ended, length=length, covered=None, lengths=batch.lengths)
    ends = _merged(beams.ends, Ends(scores, ended, length.expand(ended.shape), parents[:, :width]))
    counts = beams.counts + (ended > -torch.inf).sum(dim=1)
    chosen = is_end.long().sort(dim=1, stable=True).indices[:, :width]  # the first K that do not end
    live = values.masked_fill(is_end, -torch.inf).gather(1, chosen)
    parents, tokens = parents.gather(1, chosen), tokens.gather(1, chosen)
    if plan.stop_after is None:
        bounds = score.bound(live.flatten(), length=length, lengths=_of_rows(batch.lengths, width))
        live = live.masked_fill(bounds.view_as(live) <= ends.scores[:, -1:], -torch.inf)
    at_maximum = length >= batch.limits.maximum
    is_over = (live == -torch.inf).all(dim=1)  # no hypothesis is left that could still win
    if plan.stop_after is not None:
        is_over = is_over | (counts >= plan.stop_after)
    cut = torch.where((at_maximum & ~beams.done)[:, None], beams.live, beams.cut)
    done = beams.done | at_maximum | is_over
    rows = (torch.arange(len(parents), device=parents.device)[:, None] * width + parents).flatten()
    after = Beams(
        beams.length + 1,
        live.masked_fill(done[:, None], -torch.inf),
        beams.tokens.index_copy(2, column, tokens[..., None].to(torch.int32)),
        beams.parents.index_copy(2, column, parents[..., None].to(torch.int32)),
        ends,
        counts,
        done,
        cut,
        tokens.flatten(),
        None,
    )
    return after, rows


def _candidates(beams: Beams, batch: Batch, best: Best, *, plan: Plan, length: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The 2K best extensions of each sentence's K hypotheses: log-probabilities, parents and tokens, each [B,2K]."""
    log_probs, tokens = allowed_best(best, marks=plan.marks, length=length, limits=_of_rows(batch.limits, plan.beams))
    live = beams.live.masked_fill(beams.done[:, None], -torch.inf)
    totals = live[..., None] + log_probs.view(*live.shape, -1)
    values, indices = best_candidates(totals.flatten(1), count=2 * plan.beams)
    return values, indices // totals.shape[2], tokens.view(len(live), -1).gather(1, indices)


def _of_rows(parts: Any, width: int) -> Any:
    """The tuple `parts` of tensors [B] with each value repeated for the `width` hypotheses of its sentence."""
    return type(parts)(*(part[:, None].expand(-1, width).flatten() for part in parts))


def _merged(ends: Ends, added: Ends) -> Ends:
    """The best complete hypotheses, out of those finished before (`ends`) and those that end at this step (`added`)."""
    both = Ends(*(torch.cat(parts, dim=1) for parts in zip(ends, added, strict=True)))
    order = both.scores.sort(dim=1, descending=True, stable=True).indices[:, : ends.scores.shape[1]]
    return Ends(*(part.gather(1, order) for part in both))


def moved(beams: Beams, batch: Batch, sentences: Tensor, *, size: int) -> tuple[Beams, Batch]:
    """The search state and the batch, reduced to the given `sentences` (rows), with room for `size` tokens."""
    width, extra = beams.live.shape[1], size - beams.tokens.shape[2]
    rows = (sentences[:, None] * width + torch.arange(width, device=sentences.device)).flatten()
    of_sentences = select_rows(beams._replace(last=beams.length, state=None), sentences)  # both have rows: see below
    after = of_sentences._replace(
        tokens=F.pad(of_sentences.tokens, (0, extra)),
        parents=F.pad(of_sentences.parents, (0, extra)),
        last=beams.last.index_select(0, rows),
        state=move_rows(beams.state, rows, size=size),
    )
    return after, select_rows(batch, sentences)


def results_of_done(beams: Beams, batch: Batch, *, plan: Plan) -> dict[int, list[Hypothesis]]:
    """The n best hypotheses of each sentence that is done, by the sentence's index in the initial batch."""
    needed = (beams.tokens, beams.parents, beams.ends, beams.cut, batch.sentence, batch.lengths)
    is_done, needed = copied_to_host((beams.done, needed))
    tokens, parents, ends, cut, sentence, lengths = select_rows(needed, is_done.nonzero().squeeze(1))
    texts = traced(tokens, parents, slots=ends.slots, lengths=ends.lengths - 1).tolist()
    sentences = sentence.tolist()
    numbers = zip(texts, *(part.tolist() for part in ends[:3]), strict=True)
    results = {
        index: [
            Hypothesis(tuple(text[: size - 1]), score, log_prob, cut=False)
            for text, score, log_prob, size in zip(*values, strict=True)
            if score > -torch.inf
        ]
        for index, values in zip(sentences, numbers, strict=True)
    }
    for row in (cut > -torch.inf).any(dim=1).nonzero().squeeze(1).tolist():
        index = sentences[row]
        if len(results[index]) >= plan.nbest:
            continue
        own, size = slice(row, row + 1), int(lengths.maximum[row]) - 1
        slots = torch.arange(cut.shape[1])[None]
        live = traced(tokens[own], parents[own], slots=slots, lengths=torch.full_like(slots, size))[..., :size]
        results[index] += cut_hypotheses(
            Live(cut[own], live),
            SentenceLengths(*(part[own] for part in lengths)),
            missing=None,
            score=plan.score,
            size=size,
            exclude=results[index],
        )
    return {index: hypotheses[: plan.nbest] for index, hypotheses in results.items()}


def traced(tokens: Tensor, parents: Tensor, *, slots: Tensor, lengths: Tensor) -> Tensor:
    """The tokens [B,F,M] of the hypotheses of `lengths` [B,F] tokens whose last token is in `slots` [B,F].

    All tensors are on the CPU. NumPy is used because it is faster for many small operations.
    """
    all_tokens, all_parents, sizes, slot = (part.numpy() for part in (tokens, parents, lengths, slots))
    rows, texts = np.arange(len(slot))[:, None], np.zeros((*slot.shape, tokens.shape[2]), dtype=np.int64)
    for position in reversed(range(int(sizes.max(initial=0)))):
        is_inside = position < sizes
        texts[..., position] = np.where(is_inside, all_tokens[rows, slot, position], 0)
        slot = np.where(is_inside, all_parents[rows, slot, position], slot)
    return torch.from_numpy(texts)
