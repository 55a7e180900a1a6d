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
        total = best.values if total is None else total + best.values
        tokens = best.indices
        history = torch.cat([history, tokens[:, None]], dim=1)
        over = (tokens == marks.end) | (length >= maximum)
        if bool(over.any()):
            _collect(results, sentences[over], history[over], total[over], end=marks.end)
            rows = (~over).nonzero().squeeze(1)
            if len(rows) == 0:
                break
            state, context = select_rows((state, context), rows)
            sentences, tokens, total, history = (each[rows] for each in (sentences, tokens, total, history))
            maximum, minimum = maximum[rows], minimum[rows]
    return [results[sentence] for sentence in sorted(results)]


def _collect(results: dict[int, Hypothesis], sentences: Tensor, history: Tensor, total: Tensor, *, end: int) -> None:
    for sentence, tokens, score in zip(sentences.tolist(), history.tolist(), total.tolist(), strict=True):
        ended = tokens[-1] == end
        results[sentence] = Hypothesis(tuple(tokens[:-1] if ended else tokens), score, score, cut=not ended)
