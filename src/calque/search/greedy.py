"""The most likely token at every step. Letters: B sentences, V vocabulary."""

from typing import Any

import torch
from torch import Tensor

from calque.search.step import Hypothesis, Limits, Marks, Step, forbid
from calque.tensors import select_rows


def greedy_search(step: Step, state: Any, context: Any, *, limits: Limits, marks: Marks) -> list[Hypothesis]:
    """One hypothesis a sentence; finished sentences are dropped from the batch as they end."""
    sentences = torch.arange(limits.maximum.shape[0], device=limits.maximum.device)  # which are still going
    tokens = torch.full_like(sentences, marks.start)
    maximum, minimum = limits
    history, total = tokens[:, None][:, :0], None
    results: dict[int, Hypothesis] = {}
    for length in range(1, int(maximum.max()) + 1):
        output, state = step(tokens, state, context)
        best = forbid(output.log_probs[:, None], marks=marks, length=length, minimum=minimum)[:, 0].max(dim=-1)
        stuck = best.values == -torch.inf  # no token may come next: what was said so far is the answer, cut
        tokens = best.indices
        history = torch.cat([history, tokens[:, None]], dim=1)
        said = best.values.masked_fill(stuck, 0)
        total = said if total is None else total + said
        over = (tokens == marks.end) | stuck | (length >= maximum)
        if bool(over.any()):
            _collect(results, sentences[over], history[over], total[over], stuck[over], end=marks.end)
            rows = (~over).nonzero().squeeze(1)
            if len(rows) == 0:
                break
            state, context = select_rows((state, context), rows)
            sentences, tokens, total, history = (each[rows] for each in (sentences, tokens, total, history))
            maximum, minimum = maximum[rows], minimum[rows]
    return [results[sentence] for sentence in sorted(results)]


def _collect(
    results: dict[int, Hypothesis], sentences: Tensor, history: Tensor, total: Tensor, stuck: Tensor, *, end: int
) -> None:
    rows = zip(*(part.tolist() for part in (sentences, history, total, stuck)), strict=True)
    for sentence, tokens, score, is_stuck in rows:
        ended = not is_stuck and tokens[-1] == end
        kept = tokens[:-1] if ended or is_stuck else tokens
        results[sentence] = Hypothesis(tuple(kept), score, score, cut=not ended)
