"""Beam search over a batch of sentences, with an exact stopping rule.

Letters: B sentences still going, K beams, N = B·K, V vocabulary, F finished hypotheses kept a sentence, M longest,
S source, C candidates.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from calque.search.scoring import Known, Score
from calque.search.step import Hypothesis, Limits, Marks, Step, StepOutput, forbid
from calque.tensors import select_rows


class Live(NamedTuple):
    """Hypotheses that may go on, best first."""

    log_probs: Tensor  # [B,K]
    tokens: Tensor  # [B,K,t]
    covered: Tensor | None = None  # [B,K,S], the sum of attention so far, where the score needs it


class Finished(NamedTuple):
    """The best hypotheses that have ended, best first; −∞ where there is none yet."""

    scores: Tensor  # [B,F]
    log_probs: Tensor  # [B,F]
    lengths: Tensor  # [B,F], the end mark counted
    tokens: Tensor  # [B,F,M]


class Extended(NamedTuple):
    """What a step makes of live hypotheses."""

    live: Live
    parents: Tensor  # [B,K], which hypothesis each comes from
    ended: Live  # [B,K], those that end now; −∞ where a place is not an end


class Expansion(Protocol):
    """How live hypotheses grow by a token and which of them are kept: the K best, K diverse ones, ..."""

    def start(self, sentences: Tensor) -> Any:
        """What it remembers, before any token, of sentences [B]; a tree of tensors with B rows."""
        ...

    def extend(self, live: Live, log_probs: Tensor, memory: Any, *, end: int) -> tuple[Extended, Any]:
        """From the log-probabilities [B,K,V] of their next tokens, −∞ where a token may not stand."""
        ...

    def missing_phrase(self, memory: Any) -> Tensor | None:
        """[B,K], which live hypotheses have not said what they must; None where nothing must be said."""
        ...


class Widest:
    """The K best of all candidates."""

    def __init__(self, beams: int) -> None:
        self.beams = beams

    def start(self, sentences: Tensor) -> None:
        return None

    def extend(self, live: Live, log_probs: Tensor, memory: None, *, end: int) -> tuple[Extended, None]:
        return extend(live, log_probs, beams=self.beams, end=end), None

    def missing_phrase(self, memory: None) -> None:
        return None


class Goal(NamedTuple):
    """Which answers are looked for."""

    score: Score
    nbest: int = 1
    stop_after: int | None = None  # so many have ended; else when nothing better can come


class Rows(NamedTuple):
    """What is known of the sentences still going; a tree of tensors with B rows."""

    sentence: Tensor  # [B], which of the batch's
    limits: Limits
    known: Known
    live: Live
    finished: Finished
    counts: Tensor  # [B], how many have ended so far
    memory: Any  # the expansion's


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
) -> list[list[Hypothesis]]:
    """The n best hypotheses of each sentence, best first; none where no token may follow any of them.

    A hypothesis may end only from the K best candidates of a step. A sentence is over when no live hypothesis can
    still beat its n-th best finished one, whatever follows, or earlier, when `stop_after` have finished; live ones of
    its maximum length that do not end are closed unfinished and stand after all finished ones, flagged `cut`. Equal
    scores go to the lower token. `state` has one row a sentence; finished sentences are dropped from the batch.
    """
    rows = _start(limits, source_lengths, memory=expansion.start(source_lengths), nbest=goal.nbest)
    last = torch.full_like(rows.sentence, marks.start)
    results: dict[int, list[Hypothesis]] = {}
    for length in range(1, int(limits.maximum.max()) + 1):
        output, state = step(last, state, context)
        before, width = rows, rows.live.log_probs.shape[1]
        rows, parents = _grown(rows, output, expansion=expansion, goal=goal, marks=marks, length=length)
        over = _is_over(rows, goal=goal, length=length)
        if bool(over.any()):
            missing_phrase = expansion.missing_phrase(before.memory)
            results |= _answers(rows, before.live, over, missing_phrase=missing_phrase, goal=goal, length=length)
        going = (~over).nonzero().squeeze(1)
        if len(going) == 0:
            break
        state = select_rows(state, (going[:, None] * width + parents[going]).flatten())
        if len(going) < len(over):
            context, rows = select_rows((context, rows), going)
        last = rows.live.tokens[:, :, -1].flatten()
    return [results[sentence] for sentence in sorted(results)]


def best_candidates(scores: Tensor, *, count: int) -> tuple[Tensor, Tensor]:
    """The `count` best values of [B,C] and their places, best first; equal values go to the lower place."""
    count = min(count, scores.shape[1])
    values, places = scores.topk(min(count + 1, scores.shape[1]))
    cut = (values[:, count - 1 : count] == values[:, count:]) & values[:, count:].isfinite()
    places, order = places[:, :count].sort(dim=1)
    ordered = values[:, :count].gather(1, order).sort(dim=1, descending=True, stable=True)
    values, places = ordered.values, places.gather(1, ordered.indices)
    rows = cut.any(dim=1).nonzero().squeeze(1)
    if len(rows):  # topk leaves open which of equal values it takes
        exact = scores[rows].sort(dim=1, descending=True, stable=True)
        values[rows], places[rows] = exact.values[:, :count], exact.indices[:, :count]
    return values, places


def extend(live: Live, log_probs: Tensor, *, beams: int, end: int, bonus: Tensor | None = None) -> Extended:
    """The K best of all that live hypotheses can become by one token of log_probs [B,K,V].

    A `bonus` that broadcasts to [B,K,V] counts when they are compared, and not in what they are worth.
    """
    vocabulary = log_probs.shape[-1]
    totals = live.log_probs[..., None] + log_probs
    compared = totals if bonus is None else totals + bonus
    values, places = best_candidates(compared.flatten(1), count=2 * beams)  # at most K of them are ends
    if bonus is not None:
        values = totals.flatten(1).gather(1, places)
    parents, tokens = places // vocabulary, places % vocabulary
    return keep(live, values, parents=parents, tokens=tokens, beams=beams, end=end)


def keep(live: Live, values: Tensor, *, parents: Tensor, tokens: Tensor, beams: int, end: int) -> Extended:
    """Of candidates [B,C], best first: the first K that go on, and the ends among the first K."""
    is_end = tokens == end
    grown = torch.cat([along(live.tokens, parents), tokens[..., None]], dim=2)
    covered = None if live.covered is None else along(live.covered, parents)
    ended = Live(
        values.masked_fill(~is_end, -torch.inf)[:, :beams],
        grown[:, :beams],
        None if covered is None else covered[:, :beams],
    )
    chosen = is_end.long().sort(dim=1, stable=True).indices[:, :beams]  # the first K that do not end
    going = values.masked_fill(is_end, -torch.inf).gather(1, chosen)
    after = Live(going, along(grown, chosen), None if covered is None else along(covered, chosen))
    return Extended(after, parents.gather(1, chosen), ended)


def along(values: Tensor, places: Tensor) -> Tensor:
    """Values [B,C] or [B,C,X] at places [B,P] of their second dimension."""
    index = places if values.dim() == 2 else places[..., None].expand(-1, -1, values.shape[2])
    return values.gather(1, index)


def _start(limits: Limits, source_lengths: Tensor, *, memory: Any, nbest: int) -> Rows:
    """Before any token: one empty hypothesis a sentence."""
    sentences = torch.arange(len(limits.maximum), device=limits.maximum.device)
    live = Live(torch.zeros(len(sentences), 1, device=sentences.device), sentences.new_zeros(len(sentences), 1, 0))
    finished = _nothing(live.log_probs, nbest=nbest, longest=int(limits.maximum.max()))
    known = Known(source_lengths, limits.maximum)
    return Rows(sentences, limits, known, live, finished, torch.zeros_like(sentences), memory)


def _grown(
    rows: Rows, output: StepOutput, *, expansion: Expansion, goal: Goal, marks: Marks, length: int
) -> tuple[Rows, Tensor]:
    """The sentences after token number `length`, and which hypothesis [B,K] each live one comes from."""
    live = rows.live
    log_probs = output.log_probs.view(*live.log_probs.shape, -1)
    steps = forbid(log_probs, marks=marks, length=length, limits=rows.limits)
    if goal.score.needs_coverage:
        live = live._replace(covered=_cover(live, output.attention))
    (live, parents, ended), memory = expansion.extend(live, steps, rows.memory, end=marks.end)
    scores = goal.score.finished(ended.log_probs, length=length, covered=ended.covered, known=rows.known)
    finished = _merge(rows.finished, ended, scores=scores, length=length)
    counts = rows.counts + (ended.log_probs > -torch.inf).sum(dim=1)
    return rows._replace(live=live, finished=finished, counts=counts, memory=memory), parents


def _is_over(rows: Rows, *, goal: Goal, length: int) -> Tensor:
    """[B], which sentences need no further token."""
    over = length >= rows.limits.maximum
    if goal.stop_after is not None:
        return over | (rows.counts >= goal.stop_after) | (rows.live.log_probs == -torch.inf).all(dim=1)
    bound = goal.score.bound(rows.live.log_probs.max(dim=1).values, length=length, known=rows.known)
    return over | (bound <= rows.finished.scores[:, -1])


def _cover(live: Live, attention: Tensor | None) -> Tensor:
    """[B,K,S], what hypotheses have looked at when this step's attention [N,S] is counted."""
    if attention is None:
        raise ValueError("coverage needs a model with attention; set search.coverage = 0")
    now = attention.view(*live.log_probs.shape, -1)
    return now if live.covered is None else live.covered + now


def _merge(finished: Finished, ended: Live, *, scores: Tensor, length: int) -> Finished:
    """The best of what had finished and what ends now."""
    count, longest = finished.scores.shape[1], finished.tokens.shape[2]
    padded = torch.nn.functional.pad(ended.tokens, (0, longest - length))
    together = Finished(
        torch.cat([finished.scores, scores], dim=1),
        torch.cat([finished.log_probs, ended.log_probs], dim=1),
        torch.cat([finished.lengths, torch.full_like(ended.tokens[..., 0], length)], dim=1),
        torch.cat([finished.tokens, padded], dim=1),
    )
    order = together.scores.sort(dim=1, descending=True, stable=True).indices[:, :count]
    return Finished(*(along(part, order) for part in together))


def _answers(
    rows: Rows, before: Live, over: Tensor, *, missing_phrase: Tensor | None, goal: Goal, length: int
) -> dict[int, list[Hypothesis]]:
    """Those of the sentences that are over; `before` lived before token number `length`; [B,K] `missing_phrase`."""
    results = {}
    for row in over.nonzero().squeeze(1).tolist():
        finished, live, known = (_row(part, row) for part in (rows.finished, before, rows.known))
        answers = _finished(finished)
        if length >= int(rows.limits.maximum[row]):
            lacks = None if missing_phrase is None else missing_phrase[row].tolist()
            answers += _cut(live, known, lacks=lacks, score=goal.score, size=length - 1, but=answers)
        results[int(rows.sentence[row])] = answers[: goal.nbest]
    return results


def _finished(finished: Finished) -> list[Hypothesis]:
    """One sentence's hypotheses that have ended, best first."""
    return [
        Hypothesis(tuple(tokens[: size - 1]), value, log_prob, cut=False)
        for value, log_prob, size, tokens in zip(*(part[0].tolist() for part in finished), strict=True)
        if value > -torch.inf
    ]


def _cut(
    live: Live, known: Known, *, lacks: list[bool] | None, score: Score, size: int, but: Sequence[Hypothesis]
) -> list[Hypothesis]:
    """One sentence's hypotheses of the maximum length but those that ended there, each once, incomplete ones last."""
    scores = score.finished(live.log_probs, length=size, covered=live.covered, known=known)
    lacks = lacks or [False] * live.log_probs.shape[1]
    rows = zip(*(part[0].tolist() for part in (live.tokens, scores, live.log_probs)), lacks, strict=True)
    cut = [Hypothesis(tuple(tokens), value, log_prob, True, lack) for tokens, value, log_prob, lack in rows]
    said = {each.tokens for each in but}
    once = {each.tokens: each for each in cut if each.score > -torch.inf and each.tokens not in said}
    return sorted(once.values(), key=lambda each: (each.missing_phrase, -each.score))


def _row(tree: Any, row: int) -> Any:
    """One sentence of a tree, as a batch of one."""
    return type(tree)(*(None if part is None else part[row : row + 1] for part in tree))


def _nothing(like: Tensor, *, nbest: int, longest: int) -> Finished:
    rows = like.shape[0]
    scores = like.new_full((rows, nbest), -torch.inf)
    tokens = torch.zeros(rows, nbest, longest, dtype=torch.long, device=like.device)
    return Finished(scores, scores, tokens[..., 0], tokens)
