"""Hypotheses drawn at random, each sentence from a stream of its own, so that a batch does not change what is drawn.

Letters: B sentences, R draws a sentence, N = B·R hypotheses, V vocabulary.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.search.autoregressive import follow
from calque.search.step import Hypothesis, Limits, Marks, Step
from calque.tensors import exact, running_sum


class Sampling(NamedTuple):
    """What may be drawn, and how evenly."""

    temperature: float = 1.0  # above 0; below 1 the likely get likelier
    top_k: int = 0  # only the so many most likely; 0: all
    top_p: float = 1.0  # only the most likely that together have this share (nucleus: Holtzman 2020)
    min_p: float = 0.0  # only those with this share of the most likely one's probability (Nguyen 2024)


def sample_search(
    step: Step,
    state: Any,
    context: Any,
    *,
    sampling: Sampling,
    draws: int,
    streams: Tensor,
    limits: Limits,
    marks: Marks,
) -> list[list[Hypothesis]]:
    """`draws` hypotheses of each sentence in the order of drawing; a score is the model's own log-probability.

    `streams` [B] holds a number for each sentence: the same number draws the same, whatever else is in the batch. One
    that comes to where no token may follow is left out.
    """
    numbers = torch.arange(draws, device=streams.device).repeat(len(streams))
    keys = mixed(mixed(streams).repeat_interleave(draws) + numbers)

    def drawn(log_probs: Tensor, number: Tensor, length: int) -> Tensor:
        return draw(filtered(log_probs, sampling), uniform(keys[number], length))

    return follow(step, state, context, choose=drawn, count=draws, limits=limits, marks=marks)


def filtered(log_probs: Tensor, sampling: Sampling) -> Tensor:
    """[N,V] exact probabilities of what may be drawn; 0 elsewhere. The most likely token always stays."""
    probs = (exact(log_probs) / sampling.temperature).softmax(dim=-1)
    if sampling.min_p > 0:
        probs = probs.masked_fill(probs < sampling.min_p * probs.amax(dim=-1, keepdim=True), 0)
    if 0 < sampling.top_k < probs.shape[-1] or sampling.top_p < 1:
        ordered, places = probs.sort(dim=-1, descending=True, stable=True)
        ordered = ordered / ordered.sum(dim=-1, keepdim=True)
        dropped = running_sum(ordered, dim=-1) - ordered >= sampling.top_p  # what stands before is enough already
        if sampling.top_k > 0:
            dropped = dropped | (torch.arange(probs.shape[-1], device=probs.device) >= sampling.top_k)
        dropped[:, 0] = False
        probs = probs.masked_fill(torch.zeros_like(dropped).scatter(1, places, dropped), 0)
    return probs / probs.sum(dim=-1, keepdim=True)


def draw(probs: Tensor, numbers: Tensor) -> Tensor:
    """[N], the token at which the sum of probs [N,V] passes a number [N] between 0 and 1."""
    sums = running_sum(probs, dim=-1)
    return torch.searchsorted(sums, (numbers * sums[:, -1])[:, None], right=True).squeeze(1).clamp(max=_last(probs))


def uniform(keys: Tensor, number: int) -> Tensor:
    """[N] in [0, 1): a function of keys [N] and a number, and of nothing else."""
    bits = mixed(keys + mixed(torch.full_like(keys, number)))
    return exact((bits >> 11) & ((1 << 53) - 1)) / (1 << 53)


def mixed(values: Tensor) -> Tensor:
    """Integers of 64 bits, well mixed (SplitMix64: Steele 2014); they wrap around."""
    values = values + _signed(0x9E3779B97F4A7C15)
    values = (values ^ _shifted(values, 30)) * _signed(0xBF58476D1CE4E5B9)
    values = (values ^ _shifted(values, 27)) * _signed(0x94D049BB133111EB)
    return values ^ _shifted(values, 31)


def _shifted(values: Tensor, by: int) -> Tensor:
    """Shifted right as if without a sign."""
    return (values >> by) & ((1 << (64 - by)) - 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _last(probs: Tensor) -> Tensor:
    """[N], the last token with a probability, in case rounding would go past it."""
    places = torch.arange(probs.shape[-1], device=probs.device)
    return (places * (probs > 0)).amax(dim=-1)
