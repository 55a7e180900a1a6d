"""Hypotheses that are followed one token after the other, none of them compared with another.

Letters: B sentences, R hypotheses a sentence, N = B·R, V vocabulary, t tokens so far.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.search.step import Hypothesis, Limits, Marks, Step, forbid
from calque.tensors import select_rows

Choose = Callable[[Tensor, Tensor, int], Tensor]
"""(log_probs [N,V], −∞ where a token may not stand; which of the first N each row is [N]; length) → tokens [N]."""


class Followed(NamedTuple):
    """The hypotheses of the sentences still going, one row each."""

    number: Tensor  # [N], which of the first N
    tokens: Tensor  # [N,t], behind the end more of them
    log_probs: Tensor  # [N], −∞ where no token could follow
    ended: Tensor  # [N], whether nothing follows
    cut: Tensor  # [N], whether that is because of the maximum length


def follow(
    step: Step, state: Any, context: Any, *, choose: Choose, count: int, limits: Limits, marks: Marks
) -> list[list[Hypothesis]]:
    """`count` hypotheses of each sentence, less those that came to where no token may follow.

    A score is the log-probability. Finished sentences are dropped from the batch.
    """
    sentences = torch.arange(len(limits.maximum), device=limits.maximum.device)
    state = state if count == 1 else select_rows(state, sentences.repeat_interleave(count))
    followed = _start(len(sentences) * count, device=sentences.device)
    last = torch.full_like(followed.number, marks.start)
    results: dict[int, list[Hypothesis]] = {}
    for length in range(1, int(limits.maximum.max()) + 1):
        output, state = step(last, state, context)
        rows = output.log_probs.view(len(sentences), count, -1)
        allowed = forbid(rows, marks=marks, length=length, limits=limits).flatten(0, 1)
        tokens = choose(allowed, followed.number, length)
        said = allowed.gather(1, tokens[:, None]).squeeze(1)
        at_last = (length >= limits.maximum).repeat_interleave(count)
        followed = _grown(followed, tokens, said, at_last=at_last, end=marks.end)
        last = followed.tokens[:, -1]
        over = followed.ended.view(-1, count).all(dim=1)
        if bool(over.any()):
            for row in over.nonzero().squeeze(1).tolist():
                own = Followed(*(part[row * count : (row + 1) * count] for part in followed))
                results[int(sentences[row])] = _answers(own, end=marks.end)
            going = (~over).nonzero().squeeze(1)
            if len(going) == 0:
                break
            kept = (going[:, None] * count + torch.arange(count, device=going.device)).flatten()
            state, followed, last = select_rows((state, followed, last), kept)
            context, limits, sentences = select_rows((context, limits, sentences), going)
    return [results[sentence] for sentence in sorted(results)]


def _start(rows: int, *, device: torch.device) -> Followed:
    number = torch.arange(rows, device=device)
    nothing = torch.zeros(rows, dtype=torch.bool, device=device)
    return Followed(number, number[:, None][:, :0], torch.zeros(rows, device=device), nothing, nothing)


def _grown(followed: Followed, tokens: Tensor, said: Tensor, *, at_last: Tensor, end: int) -> Followed:
    """Hypotheses after one more token [N] each, which cost `said` [N]; an end stands behind all that go no further."""
    before = followed.ended
    is_end = (tokens == end) & (said > -torch.inf)
    cut = ~before & at_last & ~is_end  # as long as they may be, and not at their end
    stuck = ~before & ~cut & (said == -torch.inf)
    ended = before | cut | stuck | is_end
    return Followed(
        followed.number,
        torch.cat([followed.tokens, tokens.masked_fill(ended, end)[:, None]], dim=1),
        followed.log_probs + said.masked_fill(before | cut, 0),
        ended,
        followed.cut | cut,
    )


def _answers(followed: Followed, *, end: int) -> list[Hypothesis]:
    rows = zip(*(part.tolist() for part in (followed.tokens, followed.log_probs, followed.cut)), strict=True)
    return [
        Hypothesis(tuple(tokens[: tokens.index(end)]), log_prob, log_prob, cut=is_cut)
        for tokens, log_prob, is_cut in rows
        if log_prob != -torch.inf
    ]
