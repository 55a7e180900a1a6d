"""Reads given translations with every token known: what each piece cost, and where the model looked.

Letters: B sentences, K answers each, N = B·K, S source, T target.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from calque.engine.ensemble import Decoding
from calque.layers.output import wide
from calque.models.model import Model
from calque.objectives.decoding_step import pad_source
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


class _Laid(NamedTuple):
    """Answers as rows of a batch, K to a source; some of the rows may be there to fill it up."""

    said: list[list[int]]  # each row's tokens, with its end
    targets: Tensor  # [N,T], padded
    inputs: Tensor  # [N,T], what is read before each
    sources: Tensor  # [N], the source of each row


@torch.inference_mode()
def read_back(
    model: Model, sources: Sequence[Sequence[int]], answers: Sequence[Sequence[Answer]]
) -> list[list[Reading]]:
    """A reading of every answer to every source; the model is in evaluation mode.

    Law: the sum of a reading's log-probabilities is the log-probability that search gave the answer.
    """
    device = next(model.parameters()).device
    source, laid = pad_source(sources), _lay_out(answers, device=device)
    context = model.prepare(source.to(device))
    state = select_rows(model.start(context), laid.sources)
    output, _ = model.read(laid.inputs, state, context, attention=True)
    log_probs = model.log_probs(output, context).gather(2, laid.targets[..., None]).squeeze(2)
    return _readings(laid, answers, log_probs=log_probs, attention=output.attention, lengths=source.lengths)


@torch.inference_mode()
def read_along(decoding: Decoding, answers: Sequence[Sequence[Answer]], *, lengths: Tensor) -> list[list[Reading]]:
    """The same by a step, one token after the other: where several models have a say. `lengths` [B] is the sources'."""
    laid = _lay_out(answers, device=lengths.device)
    state, told, looked = select_rows(decoding.state, laid.sources), [], []
    for place in range(laid.inputs.shape[1]):
        output, state = decoding.step(laid.inputs[:, place], state, decoding.context)
        told.append(output.log_probs.gather(1, laid.targets[:, place : place + 1]))
        looked.append(output.attention)
    seen = [each for each in looked if each is not None]
    attention = torch.stack(seen, dim=1) if seen else None
    return _readings(laid, answers, log_probs=torch.cat(told, dim=1), attention=attention, lengths=lengths)


def _lay_out(answers: Sequence[Sequence[Answer]], *, device: torch.device) -> _Laid:
    most = max(map(len, answers))
    rows = [row for given in answers for row in (*given, *[Answer(())] * (most - len(given)))]
    said = [[*row.tokens, *([] if row.cut else [EOS])] for row in rows]
    longest = max(1, *map(len, said))
    targets = torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in said], device=device)
    inputs = torch.cat([torch.full_like(targets[:, :1], BOS), targets[:, :-1]], dim=1)
    return _Laid(said, targets, inputs, torch.arange(len(answers), device=device).repeat_interleave(most))


def _readings(
    laid: _Laid, answers: Sequence[Sequence[Answer]], *, log_probs: Tensor, attention: Tensor | None, lengths: Tensor
) -> list[list[Reading]]:
    told, looked = log_probs.cpu(), None if attention is None else wide(attention).cpu()
    sizes = lengths.cpu()[laid.sources.cpu()].tolist()
    readings = [
        Reading(told[row, : len(said)].tolist(), None if looked is None else looked[row, : len(said), :size])
        for row, (said, size) in enumerate(zip(laid.said, sizes, strict=True))
    ]
    most = len(readings) // len(answers)
    return [readings[place * most : place * most + len(given)] for place, given in enumerate(answers)]
