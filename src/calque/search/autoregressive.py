"""Token-by-token decoding of hypotheses that do not compete: greedy search and sampling.

Letters: B sentences, R hypotheses per sentence, N = B·R, V vocabulary, t tokens so far.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.search.observers import NO_HOOKS, Candidates, Hooks, SearchStep
from calque.search.step import Hypothesis, Limits, Live, Marks, Step, forbid, is_worth_removing
from calque.tensors import select_rows

Choose = Callable[[Tensor, Tensor, int], Tensor]
"""A function that chooses the next tokens [N], given log_probs [N,V], row indices [N] and the length.

Forbidden tokens have −∞. The indices refer to the initial rows, since the rows of finished sentences are removed; the
length is the number of the next token, counted from 1.
"""


class Proposed(NamedTuple):
    """The next token of each hypothesis."""

    tokens: Tensor  # [N]
    log_probs: Tensor  # [N], −∞ where no token was allowed
    state: Any


class Position(NamedTuple):
    """The number of the next token, counted from 1, and the hypotheses that are still in the batch."""

    length: int
    rows: Tensor  # [N], indices among the initial rows
    limits: Limits


Propose = Callable[[Tensor, Any, Any, Position], Proposed]
"""A function that proposes the next tokens, given the last tokens [N], state, context and position."""


class PartialHypotheses(NamedTuple):
    """The hypotheses so far of all sentences in the batch, one per row; some of them may already be complete."""

    row: Tensor  # [N], the row among the initial N
    tokens: Tensor  # [N,t], padded with end marks after the first one
    log_probs: Tensor  # [N], −∞ where no token was allowed
    ended: Tensor  # [N], whether the hypothesis is complete
    cut: Tensor  # [N], whether it was cut at the maximum length


def choosing(step: Step, choose: Choose, *, marks: Marks) -> Propose:
    """A function that proposes next tokens: `choose` picks them, given the log-probabilities of all allowed tokens."""

    def propose(last: Tensor, state: Any, context: Any, position: Position) -> Proposed:
        output, state = step(last, state, context)
        log_probs = output.log_probs.view(len(position.limits.maximum), -1, output.log_probs.shape[-1])
        allowed = forbid(log_probs, marks=marks, length=position.length, limits=position.limits).flatten(0, 1)
        tokens = choose(allowed, position.rows, position.length)
        return Proposed(tokens, allowed.gather(1, tokens[:, None]).squeeze(1), state)

    return propose


def autoregressive_search(
    propose: Propose,
    state: Any,
    context: Any,
    *,
    count: int,
    limits: Limits,
    marks: Marks,
    hooks: Hooks = NO_HOOKS,
) -> list[list[Hypothesis]]:
    """`count` hypotheses per sentence; a hypothesis that reaches a point where no token is allowed is discarded.

    The score is the log-probability. Finished sentences are removed from the batch (without an observer, only once
    there are many). So are sentences that the caller abandons (`hooks.give_up`); their list of hypotheses is empty.
    """
    sentences = torch.arange(len(limits.maximum), device=limits.maximum.device)
    state = state if count == 1 else select_rows(state, sentences.repeat_interleave(count))
    partial = _start(len(sentences) * count, device=sentences.device)
    last = torch.full_like(partial.row, marks.start)
    results: dict[int, list[Hypothesis]] = {}
    for length in range(1, int(limits.maximum.max()) + 1):
        tokens, token_log_probs, state = propose(last, state, context, Position(length, partial.row, limits))
        at_maximum = (length >= limits.maximum).repeat_interleave(count)
        partial = _append(partial, tokens, token_log_probs, at_maximum=at_maximum, end=marks.end)
        last = partial.tokens[:, -1]
        finished = partial.ended.view(-1, count).all(dim=1)
        abandoned = hooks.given_up(sentences)
        if hooks.observer is not None:
            done = finished if abandoned is None else finished | abandoned
            hooks.observer.search_step(
                _step(partial, tokens, length=length, sentences=sentences, done=done, end=marks.end)
            )
        if abandoned is not None:
            results = {sentence: [] for sentence in sentences[abandoned].tolist()} | results
            finished = finished | abandoned
        if bool(finished.any()):
            for row in finished.nonzero().squeeze(1).tolist():
                if int(sentences[row]) in results:
                    continue
                of_sentence = PartialHypotheses(*(part[row * count : (row + 1) * count] for part in partial))
                results[int(sentences[row])] = _hypotheses(of_sentence, end=marks.end)
            unfinished = (~finished).nonzero().squeeze(1)
            if len(unfinished) == 0:
                break
            is_worth_it = is_worth_removing(len(finished) - len(unfinished), of=len(finished))
            if hooks.observer is None and not is_worth_it:
                continue
            rows = (unfinished[:, None] * count + torch.arange(count, device=unfinished.device)).flatten()
            state, partial, last = select_rows((state, partial, last), rows)
            context, limits, sentences = select_rows((context, limits, sentences), unfinished)
    return [results[sentence] for sentence in sorted(results)]


def _start(rows: int, *, device: torch.device) -> PartialHypotheses:
    index = torch.arange(rows, device=device)
    false = torch.zeros(rows, dtype=torch.bool, device=device)
    return PartialHypotheses(index, index[:, None][:, :0], torch.zeros(rows, device=device), false, false)


def _append(
    partial: PartialHypotheses, tokens: Tensor, token_log_probs: Tensor, *, at_maximum: Tensor, end: int
) -> PartialHypotheses:
    """Appends `tokens` [N]; hypotheses that are complete, or cut `at_maximum`, get an end mark of log-probability 0."""
    before = partial.ended
    is_end = (tokens == end) & (token_log_probs > -torch.inf)
    cut = ~before & at_maximum & ~is_end  # at the maximum length without an end mark
    stuck = ~before & ~cut & (token_log_probs == -torch.inf)
    ended = before | cut | stuck | is_end
    return PartialHypotheses(
        partial.row,
        torch.cat([partial.tokens, tokens.masked_fill(ended, end)[:, None]], dim=1),
        partial.log_probs + token_log_probs.masked_fill(before | cut, 0),
        ended,
        partial.cut | cut,
    )


def _step(
    partial: PartialHypotheses, tokens: Tensor, *, length: int, sentences: Tensor, done: Tensor, end: int
) -> SearchStep:
    """The search step in the form that observers receive; its only candidates are the chosen `tokens` [N].

    Complete hypotheses remain, padded with end marks, until all hypotheses of their sentence are complete.
    """
    rows = len(sentences)
    log_probs, is_end = partial.log_probs.view(rows, -1), (tokens == end).view(rows, -1)
    parents = torch.arange(log_probs.shape[1], device=log_probs.device).expand_as(log_probs)
    live = Live(log_probs, partial.tokens.view(*log_probs.shape, -1))
    has_just_ended = (live.tokens[..., :-1] != end).all(dim=-1) & is_end
    ended = live._replace(log_probs=log_probs.masked_fill(~has_just_ended, -torch.inf))
    candidates = Candidates(log_probs, parents, live.tokens[..., -1])
    return SearchStep(length, sentences, candidates, live, parents, ended, ended.log_probs, done)


def _hypotheses(partial: PartialHypotheses, *, end: int) -> list[Hypothesis]:
    rows = zip(*(part.tolist() for part in (partial.tokens, partial.log_probs, partial.cut)), strict=True)
    return [
        Hypothesis(tuple(tokens[: tokens.index(end)]), log_prob, log_prob, cut=is_cut)
        for tokens, log_prob, is_cut in rows
        if log_prob != -torch.inf
    ]
