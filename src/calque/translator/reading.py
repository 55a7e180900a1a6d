"""Reads given translations with every token known: what each piece cost, and where the model looked.

Letters: B sentences, K answers each, N = B·K, S source, T target.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from calque.models.model import Model
from calque.tasks.decoding import pad_source
from calque.tensors import select_rows
from calque.text import BOS, EOS, PAD


class Answer(NamedTuple):
    """A translation in ids, without marks."""

    tokens: Sequence[int]
    cut: bool = False  # it has no end


class Reading(NamedTuple):
    """What a model makes of an answer."""

    log_probs: list[float]  # of each token, and of the end unless it was cut
    attention: Tensor | None  # [T,S] on the CPU, T as many as log_probs; S counts the source's end


@torch.inference_mode()
def read_back(
    model: Model, sources: Sequence[Sequence[int]], answers: Sequence[Sequence[Answer]]
) -> list[list[Reading]]:
    """A reading of every answer to every source; the model is in evaluation mode.

    Law: the sum of a reading's log-probabilities is the log-probability that search gave the answer.
    """
    device = next(model.parameters()).device
    source = pad_source(sources)
    most = max(map(len, answers))
    rows = [row for given in answers for row in (*given, *[Answer(())] * (most - len(given)))]
    said = [[*row.tokens, *([] if row.cut else [EOS])] for row in rows]
    longest = max(1, *map(len, said))
    targets = torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in said], device=device)
    inputs = torch.cat([torch.full_like(targets[:, :1], BOS), targets[:, :-1]], dim=1)
    context = model.prepare(source.to(device))
    state = model.start(context)
    expanded = torch.arange(len(sources), device=device).repeat_interleave(most)
    output, _ = model.read(inputs, select_rows(state, expanded), context, attention=True)
    log_probs = model.log_probs(output, context).gather(2, targets[..., None]).squeeze(2).cpu()
    attention = None if output.attention is None else output.attention.float().cpu()
    readings = []
    for place, (row, length) in enumerate(zip(said, source.lengths.repeat_interleave(most).tolist(), strict=True)):
        looked = None if attention is None else attention[place, : len(row), :length]
        readings.append(Reading(log_probs[place, : len(row)].tolist(), looked))
    return [
        readings[start : start + len(given)] for start, given in zip(range(0, len(rows), most), answers, strict=True)
    ]
