"""Beam search over a batch of sentences, with an exact stopping rule.

Letters: B sentences still going, K beams, N = B·K, V vocabulary, F finished hypotheses kept a sentence, M longest.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.search.scoring import Score
from calque.search.step import Hypothesis, Limits, Marks, Step, forbid
from calque.tensors import select_rows


class Live(NamedTuple):
    """Hypotheses that may go on, best first."""

    log_probs: Tensor  # [B,K]
    tokens: Tensor  # [B,K,t]


class Finished(NamedTuple):
    """The best hypotheses that have ended, best first; −∞ where there is none yet."""

    scores: Tensor  # [B,F]
    log_probs: Tensor  # [B,F]
    lengths: Tensor  # [B,F], the end mark counted
    tokens: Tensor  # [B,F,M]


def beam_search(
    step: Step, state: Any, context: Any, *, beams: int, nbest: int, limits: Limits, marks: Marks, score: Score
) -> list[list[Hypothesis]]:
    """The `nbest` best hypotheses of each sentence, best first.

    A hypothesis may end only from the K best candidates of a step. A sentence is over when no live hypothesis can
    still beat its n-th best finished one, whatever follows; at its maximum length live ones are closed unfinished
    and stand after all finished ones, flagged `cut`. Equal scores go to the lower token. `state` has one row a
    sentence; finished sentences are dropped from the batch.
    """
    maximum, minimum = limits
    sentences = torch.arange(maximum.shape[0], device=maximum.device)
    live = Live(torch.zeros_like(maximum[:, None], dtype=torch.float32), sentences.new_zeros(len(sentences), 1, 0))
    finished = _nothing(live.log_probs, nbest=nbest, longest=int(maximum.max()))
    last = torch.full_like(sentences, marks.start)
    results: dict[int, list[Hypothesis]] = {}
    for length in range(1, int(maximum.max()) + 1):
        output, state = step(last, state, context)
        log_probs = output.log_probs.view(*live.log_probs.shape, -1)
        steps = forbid(log_probs, marks=marks, length=length, minimum=minimum)
        live, parents, ended = _extend(live, steps, beams=beams, end=marks.end)
        finished = _merge(finished, ended, scores=score.finished(ended.log_probs, length=length), length=length)
        bound = score.bound(live.log_probs.max(dim=1).values, maximum=maximum)
        over = (bound <= finished.scores[:, -1]) | (length >= maximum)
        if bool(over.any()):
            for row in over.nonzero().squeeze(1).tolist():
                closed = Live(*(part[row] for part in live)) if length >= int(maximum[row]) else None
                results[int(sentences[row])] = _close(
                    Finished(*(part[row] for part in finished)), closed, score=score, length=length, nbest=nbest
                )
        going = (~over).nonzero().squeeze(1)
        if len(going) == 0:
            break
        width = log_probs.shape[1]
        state = select_rows(state, (going[:, None] * width + parents[going]).flatten())
        if len(going) < len(sentences):
            context, live, finished = select_rows((context, live, finished), going)
            sentences, maximum, minimum = sentences[going], maximum[going], minimum[going]
        last = live.tokens[:, :, -1].flatten()
    return [results[sentence] for sentence in sorted(results)]


def best_candidates(scores: Tensor, *, count: int) -> tuple[Tensor, Tensor]:
    """The `count` best values of [B,C] and their places, best first; equal values go to the lower place."""
    count = min(count, scores.shape[1])
    values, places = scores.topk(min(count + 1, scores.shape[1]))
    cut = values[:, count - 1 : count] == values[:, count:]
    if bool((cut & values[:, count:].isfinite()).any()):  # topk leaves open which of equal values it takes
        ordered = scores.sort(dim=1, descending=True, stable=True)
        return ordered.values[:, :count], ordered.indices[:, :count]
    places, order = places[:, :count].sort(dim=1)
    ordered = values[:, :count].gather(1, order).sort(dim=1, descending=True, stable=True)
    return ordered.values, places.gather(1, ordered.indices)


def _extend(live: Live, log_probs: Tensor, *, beams: int, end: int) -> tuple[Live, Tensor, Live]:
    """The next live hypotheses with their parents [B,K], and those that end now (−∞ where a place is not an end)."""
    vocabulary = log_probs.shape[-1]
    totals = live.log_probs[..., None] + log_probs
    values, places = best_candidates(totals.flatten(1), count=2 * beams)  # at most K of them are ends
    parents, tokens = places // vocabulary, places % vocabulary
    is_end = tokens == end
    grown = torch.cat([_along(live.tokens, parents), tokens[..., None]], dim=2)
    ended = Live(values.masked_fill(~is_end, -torch.inf)[:, :beams], grown[:, :beams])
    chosen = is_end.long().sort(dim=1, stable=True).indices[:, :beams]  # the first K that do not end
    going = values.masked_fill(is_end, -torch.inf).gather(1, chosen)
    return Live(going, _along(grown, chosen)), parents.gather(1, chosen), ended


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
    return Finished(*(_along(part, order) for part in together))


def _close(finished: Finished, live: Live | None, *, score: Score, length: int, nbest: int) -> list[Hypothesis]:
    """One sentence's answers: the finished ones, then, at its maximum length, live ones cut off."""
    answers = [
        Hypothesis(tuple(tokens[: size - 1]), value, log_prob, cut=False)
        for value, log_prob, size, tokens in zip(*(part.tolist() for part in finished), strict=True)
        if value > -torch.inf
    ]
    if live is not None:
        scores = score.finished(live.log_probs, length=length)
        answers += [
            Hypothesis(tuple(tokens), value, log_prob, cut=True)
            for value, log_prob, tokens in zip(
                scores.tolist(), live.log_probs.tolist(), live.tokens.tolist(), strict=True
            )
            if value > -torch.inf
        ]
    return answers[:nbest]


def _nothing(like: Tensor, *, nbest: int, longest: int) -> Finished:
    rows = like.shape[0]
    scores = like.new_full((rows, nbest), -torch.inf)
    tokens = torch.zeros(rows, nbest, longest, dtype=torch.long, device=like.device)
    return Finished(scores, scores, tokens[..., 0], tokens)


def _along(values: Tensor, places: Tensor) -> Tensor:
    """Values [B,C] or [B,C,X] at places [B,P] of their second dimension."""
    index = places if values.dim() == 2 else places[..., None].expand(-1, -1, values.shape[2])
    return values.gather(1, index)
