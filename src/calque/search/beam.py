"""Beam search over a batch of sentences, with an exact stopping rule.

Letters: B unfinished sentences, K beams, N = B·K, V vocabulary, F finished hypotheses kept per sentence, M maximum
length, S source, C candidates.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from calque.search.observers import NO_HOOKS, Candidates, Hooks, SearchStep
from calque.search.scoring import Score, SentenceLengths
from calque.search.step import Hypothesis, Limits, Live, Marks, Step, StepOutput, forbid
from calque.tensors import best_candidates, select_rows


class Finished(NamedTuple):
    """The best complete hypotheses, best first; −∞ in slots that are still empty."""

    scores: Tensor  # [B,F]
    log_probs: Tensor  # [B,F]
    lengths: Tensor  # [B,F], including the end mark
    tokens: Tensor  # [B,F,M]


class Extended(NamedTuple):
    """The result of extending live hypotheses by one token: those that continue, and those that end."""

    live: Live
    parents: Tensor  # [B,K], index of the hypothesis that each one extends
    ended: Live  # [B,K], hypotheses that end at this step; −∞ in slots without one
    candidates: Candidates
    matched: Tensor | None = None  # [B,C], how many tokens of required phrases each candidate has matched


class Expansion(Protocol):
    """How live hypotheses are extended by a token and pruned: to the K best, to K diverse ones, and so on."""

    def start(self, sentences: Tensor) -> Any:
        """The expansion's own state (`memory`) before the first token: a tree of tensors, one row per sentence."""
        ...

    def extend(self, live: Live, log_probs: Tensor, memory: Any, *, end: int) -> tuple[Extended, Any]:
        """Extends live hypotheses, given the log-probabilities [B,K,V] of their next tokens (−∞ if forbidden)."""
        ...

    @property
    def prunes(self) -> bool:
        """Whether hypotheses that can no longer win may be dropped; False if they affect which others survive."""
        ...

    def missing_phrase(self, memory: Any) -> Tensor | None:
        """[B,K], whether each live hypothesis still lacks a required phrase; None if no phrase is required."""
        ...


class BestK:
    """Standard beam search: keeps the K best of all candidates."""

    prunes = True

    def __init__(self, beams: int) -> None:
        self.beams = beams

    def start(self, sentences: Tensor) -> None:
        return None

    def extend(self, live: Live, log_probs: Tensor, memory: None, *, end: int) -> tuple[Extended, None]:
        return extend(live, log_probs, beams=self.beams, end=end), None

    def missing_phrase(self, memory: None) -> None:
        return None


class Goal(NamedTuple):
    """What beam search optimises, how many hypotheses it returns and when it stops."""

    score: Score
    nbest: int = 1
    stop_after: int | None = None  # stop at this many complete hypotheses; None: when no better one is possible


class Advanced(NamedTuple):
    """The result of one step of beam search."""

    batch: "BatchState"
    extended: Extended
    scores: Tensor  # [B,K], of the hypotheses that end at this step


class BatchState(NamedTuple):
    """The search state of the unfinished sentences: a tree of tensors with B rows."""

    sentence: Tensor  # [B], index in the initial batch
    limits: Limits
    lengths: SentenceLengths
    live: Live
    finished: Finished
    counts: Tensor  # [B], number of hypotheses that have ended so far
    memory: Any  # the expansion's own state


def beam_search(
    step: Step,
    state: Any,
    context: Any,
    *,
    expansion: Expansion,
    goal: Goal,
    limits: Limits,
    marks: Marks,
    source_lengths: Tensor,
    hooks: Hooks = NO_HOOKS,
) -> list[list[Hypothesis]]:
    """The n best hypotheses of each sentence, best first; an empty list if no hypothesis can be extended or ended.

    A hypothesis finishes only if its end mark is among the K best candidates of a step. If the expansion allows it, a
    live hypothesis is dropped as soon as none of its continuations can beat the n-th best finished one. The search for
    a sentence stops when no live hypothesis can still win or, if `stop_after` is set, once that many hypotheses have
    finished. Live hypotheses that reach the maximum length without ending are returned after all finished ones, flagged
    `cut`. Ties go to the extension of the better hypothesis, then to the lower token id. `state` has one row per
    sentence. Finished sentences are removed from the batch, and so are sentences that the caller abandons
    (`hooks.give_up`), for which the hypotheses finished so far are returned.
    """
    batch = start(limits, source_lengths, memory=expansion.start(source_lengths), nbest=goal.nbest)
    last = torch.full_like(batch.sentence, marks.start)
    results: dict[int, list[Hypothesis]] = {}
    for length in range(1, int(limits.maximum.max()) + 1):
        output, state = step(last, state, context)
        previous, width = batch, batch.live.log_probs.shape[1]
        batch, extended, scores = _advance(batch, output, expansion=expansion, goal=goal, marks=marks, length=length)
        done = is_done(batch, goal=goal, length=length)
        if (abandoned := hooks.given_up(batch.sentence)) is not None:
            done = done | abandoned
        if hooks.observer is not None:
            live, parents, ended, candidates, matched = extended
            hooks.observer.search_step(
                SearchStep(
                    length, batch.sentence, candidates, live, parents, ended, scores, done, matched, batch.lengths
                )
            )
        if bool(done.any()):
            missing_phrase = expansion.missing_phrase(previous.memory)
            results |= results_of(batch, previous.live, done, missing_phrase=missing_phrase, goal=goal, length=length)
        remaining = (~done).nonzero().squeeze(1)
        if len(remaining) == 0:
            break
        state = select_rows(state, (remaining[:, None] * width + extended.parents[remaining]).flatten())
        if len(remaining) < len(done):
            context, batch = select_rows((context, batch), remaining)
        last = batch.live.tokens[:, :, -1].flatten()
    return [results[sentence] for sentence in sorted(results)]


def extend(live: Live, log_probs: Tensor, *, beams: int, end: int, bonus: Tensor | None = None) -> Extended:
    """The K best extensions of live hypotheses by one token with log_probs [B,K,V].

    A `bonus` that broadcasts to [B,K,V] affects only the comparison of candidates, not their log-probabilities.
    """
    vocabulary = log_probs.shape[-1]
    totals = live.log_probs[..., None] + log_probs
    comparison = totals if bonus is None else totals + bonus
    values, indices = best_candidates(comparison.flatten(1), count=2 * beams)  # at most K of them are ends
    if bonus is not None:
        values = totals.flatten(1).gather(1, indices)
    parents, tokens = indices // vocabulary, indices % vocabulary
    return select_candidates(live, values, parents=parents, tokens=tokens, beams=beams, end=end)


def select_candidates(live: Live, values: Tensor, *, parents: Tensor, tokens: Tensor, beams: int, end: int) -> Extended:
    """Prunes candidates [B,C], best first: keeps the K best that continue, and those of the K best that end."""
    is_end = tokens == end
    grown = torch.cat([gather_candidates(live.tokens, parents), tokens[..., None]], dim=2)
    covered = None if live.covered is None else gather_candidates(live.covered, parents)
    ended = Live(
        values.masked_fill(~is_end, -torch.inf)[:, :beams],
        grown[:, :beams],
        None if covered is None else covered[:, :beams],
    )
    chosen = is_end.long().sort(dim=1, stable=True).indices[:, :beams]  # the first K that do not end
    continuing = values.masked_fill(is_end, -torch.inf).gather(1, chosen)
    after = Live(
        continuing, gather_candidates(grown, chosen), None if covered is None else gather_candidates(covered, chosen)
    )
    return Extended(after, parents.gather(1, chosen), ended, Candidates(values, parents, tokens))


def gather_candidates(values: Tensor, indices: Tensor) -> Tensor:
    """Values [B,C] or [B,C,X] at indices [B,P] of their second dimension."""
    index = indices if values.dim() == 2 else indices[..., None].expand(-1, -1, values.shape[2])
    return values.gather(1, index)


def start(limits: Limits, source_lengths: Tensor, *, memory: Any, nbest: int) -> BatchState:
    """The state of beam search before the first token: one empty hypothesis per sentence."""
    sentence_indices = torch.arange(len(limits.maximum), device=limits.maximum.device)
    live = Live(
        torch.zeros(len(sentence_indices), 1, device=sentence_indices.device),
        sentence_indices.new_zeros(len(sentence_indices), 1, 0),
    )
    finished = _no_finished(live.log_probs, nbest=nbest, longest=int(limits.maximum.max()))
    lengths = SentenceLengths(source_lengths, limits.maximum)
    return BatchState(sentence_indices, limits, lengths, live, finished, torch.zeros_like(sentence_indices), memory)


def _advance(
    batch: BatchState, output: StepOutput, *, expansion: Expansion, goal: Goal, marks: Marks, length: int
) -> Advanced:
    """The result of a step of beam search that appends token number `length` to all live hypotheses."""
    live = batch.live
    log_probs = output.log_probs.view(*live.log_probs.shape, -1)
    allowed = forbid(log_probs, marks=marks, length=length, limits=batch.limits)
    if goal.score.needs_coverage:
        live = live._replace(covered=_add_coverage(live, output.attention))
    extended, memory = expansion.extend(live, allowed, batch.memory, end=marks.end)
    return conclude(batch._replace(memory=memory), extended, goal=goal, prunes=expansion.prunes, length=length)


def conclude(batch: BatchState, extended: Extended, *, goal: Goal, prunes: bool, length: int) -> Advanced:
    """The result of a step, given the extended hypotheses: scores those that end, drops those that cannot win."""
    ended = extended.ended
    scores = goal.score.finished(ended.log_probs, length=length, covered=ended.covered, lengths=batch.lengths)
    finished = _merge(batch.finished, ended, scores=scores, length=length)
    counts = batch.counts + (ended.log_probs > -torch.inf).sum(dim=1)
    if prunes and goal.stop_after is None:
        live = _prune(extended.live, finished, batch.lengths, score=goal.score, length=length)
        extended = extended._replace(live=live)
    return Advanced(batch._replace(live=extended.live, finished=finished, counts=counts), extended, scores)


def _prune(live: Live, finished: Finished, lengths: SentenceLengths, *, score: Score, length: int) -> Live:
    """The live hypotheses, with log-probability −∞ for those that can no longer enter the n-best list of `finished`.

    Log-probabilities only fall and the lowest score on that list only rises, so they could never be returned.
    """
    width = live.log_probs.shape[1]
    rows = SentenceLengths(*(part.repeat_interleave(width) for part in lengths))
    bounds = score.bound(live.log_probs.flatten(), length=length, lengths=rows).view_as(live.log_probs)
    return live._replace(log_probs=live.log_probs.masked_fill(bounds <= finished.scores[:, -1:], -torch.inf))


def is_done(batch: BatchState, *, goal: Goal, length: int) -> Tensor:
    """Whether the search for each sentence [B] stops after token number `length`."""
    done = length >= batch.limits.maximum
    if goal.stop_after is not None:
        return done | (batch.counts >= goal.stop_after) | (batch.live.log_probs == -torch.inf).all(dim=1)
    bound = goal.score.bound(batch.live.log_probs.max(dim=1).values, length=length, lengths=batch.lengths)
    return done | (bound <= batch.finished.scores[:, -1])


def _add_coverage(live: Live, attention: Tensor | None) -> Tensor:
    """The coverage [B,K,S] of each hypothesis: its attention summed over all steps, with `attention` [N,S] the last."""
    if attention is None:
        raise ValueError("search.coverage needs a model with attention, but this one has none; set search.coverage = 0")
    current = attention.view(*live.log_probs.shape, -1)
    return current if live.covered is None else live.covered + current


def _merge(finished: Finished, ended: Live, *, scores: Tensor, length: int) -> Finished:
    """The best complete hypotheses, out of those `finished` before and those `ended` at this step with `scores`."""
    count, longest = finished.scores.shape[1], finished.tokens.shape[2]
    padded = torch.nn.functional.pad(ended.tokens, (0, longest - length))
    merged = Finished(
        torch.cat([finished.scores, scores], dim=1),
        torch.cat([finished.log_probs, ended.log_probs], dim=1),
        torch.cat([finished.lengths, torch.full_like(ended.tokens[..., 0], length)], dim=1),
        torch.cat([finished.tokens, padded], dim=1),
    )
    order = merged.scores.sort(dim=1, descending=True, stable=True).indices[:, :count]
    return Finished(*(gather_candidates(part, order) for part in merged))


def results_of(
    batch: BatchState, previous: Live, done: Tensor, *, missing_phrase: Tensor | None, goal: Goal, length: int
) -> dict[int, list[Hypothesis]]:
    """The n best hypotheses of each sentence whose search is done, by the sentence's index in the initial batch.

    `previous` are the hypotheses that were live before token number `length`. If `length` is the maximum, they
    follow the finished hypotheses, flagged `cut`.
    """
    results = {}
    for row in done.nonzero().squeeze(1).tolist():
        finished, live, lengths = (_row(part, row) for part in (batch.finished, previous, batch.lengths))
        hypotheses = _finished_hypotheses(finished)
        if length >= int(batch.limits.maximum[row]):
            missing = None if missing_phrase is None else missing_phrase[row].tolist()
            hypotheses += cut_hypotheses(
                live, lengths, missing=missing, score=goal.score, size=length - 1, exclude=hypotheses
            )
        results[int(batch.sentence[row])] = hypotheses[: goal.nbest]
    return results


def _finished_hypotheses(finished: Finished) -> list[Hypothesis]:
    """The complete hypotheses of the only sentence in `finished`, best first."""
    return [
        Hypothesis(tuple(tokens[: size - 1]), value, log_prob, cut=False)
        for value, log_prob, size, tokens in zip(*(part[0].tolist() for part in finished), strict=True)
        if value > -torch.inf
    ]


def cut_hypotheses(
    live: Live,
    lengths: SentenceLengths,
    *,
    missing: list[bool] | None,
    score: Score,
    size: int,
    exclude: Sequence[Hypothesis],
) -> list[Hypothesis]:
    """One sentence's hypotheses cut at the maximum length, without duplicates; those missing a phrase come last.

    `exclude` holds the finished hypotheses, whose tokens are not returned again.
    """
    scores = score.finished(live.log_probs, length=size, covered=live.covered, lengths=lengths)
    missing = missing or [False] * live.log_probs.shape[1]
    rows = zip(*(part[0].tolist() for part in (live.tokens, scores, live.log_probs)), missing, strict=True)
    cut = [Hypothesis(tuple(tokens), value, log_prob, True, is_missing) for tokens, value, log_prob, is_missing in rows]
    excluded = {hypothesis.tokens for hypothesis in exclude}
    unique = {
        hypothesis.tokens: hypothesis
        for hypothesis in cut
        if hypothesis.score > -torch.inf and hypothesis.tokens not in excluded
    }
    return sorted(unique.values(), key=lambda hypothesis: (hypothesis.missing_phrase, -hypothesis.score))


def _row(tree: Any, row: int) -> Any:
    """The tuple of tensors `tree` with only one row of each tensor, as a batch of one sentence."""
    return type(tree)(*(None if part is None else part[row : row + 1] for part in tree))


def _no_finished(like: Tensor, *, nbest: int, longest: int) -> Finished:
    """Empty slots for `nbest` finished hypotheses of up to `longest` tokens for each sentence of `like` [B,K]."""
    sentences = like.shape[0]
    scores = like.new_full((sentences, nbest), -torch.inf)
    tokens = torch.zeros(sentences, nbest, longest, dtype=torch.long, device=like.device)
    return Finished(scores, scores, tokens[..., 0], tokens)
