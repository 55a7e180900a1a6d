"""Sampling of hypotheses. Each sentence has its own random stream, so that samples do not depend on the batch.

Letters: B sentences, R samples per sentence, N = B·R hypotheses, V vocabulary.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.search.autoregressive import autoregressive_search, choosing
from calque.search.observers import NO_HOOKS, Hooks
from calque.search.step import Hypothesis, Limits, Marks, Step
from calque.tensors import exact, running_sum


class Sampling(NamedTuple):
    """The parameters of sampling, which change the model's distribution before a token is sampled."""

    temperature: float = 1.0  # above 0; below 1 the distribution gets sharper
    top_k: int = 0  # only the k most likely tokens; 0: all
    top_p: float = 1.0  # only the most likely tokens with this total probability (nucleus: Holtzman 2020)
    min_p: float = 0.0  # only tokens with at least this fraction of the highest probability (Nguyen 2024)


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
    hooks: Hooks = NO_HOOKS,
) -> list[list[Hypothesis]]:
    """`draws` samples per sentence, in sampling order; the score is the model's log-probability.

    `streams` [B] holds one number per sentence: the same number gives the same samples whatever else is in the batch. A
    sample that reaches a point where no token is allowed is discarded.
    """
    numbers = torch.arange(draws, device=streams.device).repeat(len(streams))
    keys = mixed(mixed(streams).repeat_interleave(draws) + numbers)

    def draw_tokens(log_probs: Tensor, index: Tensor, length: int) -> Tensor:
        return draw(filtered(log_probs, sampling), uniform(keys[index], length))

    return autoregressive_search(
        choosing(step, draw_tokens, marks=marks),
        state,
        context,
        count=draws,
        limits=limits,
        marks=marks,
        hooks=hooks,
    )


def filtered(log_probs: Tensor, sampling: Sampling) -> Tensor:
    """The probabilities [N,V] to sample from, in float64: after temperature, min_p, top_k and top_p.

    The most likely token is always kept.
    """
    probs = (exact(log_probs) / sampling.temperature).softmax(dim=-1)
    if sampling.min_p > 0:
        probs = probs.masked_fill(probs < sampling.min_p * probs.amax(dim=-1, keepdim=True), 0)
    if 0 < sampling.top_k < probs.shape[-1] or sampling.top_p < 1:
        ordered, order = probs.sort(dim=-1, descending=True, stable=True)
        ordered = ordered / ordered.sum(dim=-1, keepdim=True)
        dropped = running_sum(ordered, dim=-1) - ordered >= sampling.top_p  # the more likely tokens suffice
        if sampling.top_k > 0:
            dropped = dropped | (torch.arange(probs.shape[-1], device=probs.device) >= sampling.top_k)
        dropped[:, 0] = False
        probs = probs.masked_fill(torch.zeros_like(dropped).scatter(1, order, dropped), 0)
    return probs / probs.sum(dim=-1, keepdim=True)


def draw(probs: Tensor, numbers: Tensor) -> Tensor:
    """[N], the token at which the cumulative sum of probs [N,V] passes a number [N] between 0 and 1."""
    sums = running_sum(probs, dim=-1)
    return (
        torch.searchsorted(sums, (numbers * sums[:, -1])[:, None], right=True)
        .squeeze(1)
        .clamp(max=_last_possible(probs))
    )


def uniform(keys: Tensor, number: int) -> Tensor:
    """Pseudo-random numbers [N] in [0, 1), which depend only on the keys [N] and a number."""
    bits = mixed(keys + mixed(torch.full_like(keys, number)))
    return exact((bits >> 11) & ((1 << 53) - 1)) / (1 << 53)


def mixed(values: Tensor) -> Tensor:
    """SplitMix64 hashes of 64-bit integers, with wrap-around arithmetic (Steele 2014)."""
    values = values + _signed(0x9E3779B97F4A7C15)
    values = (values ^ _shifted(values, 30)) * _signed(0xBF58476D1CE4E5B9)
    values = (values ^ _shifted(values, 27)) * _signed(0x94D049BB133111EB)
    return values ^ _shifted(values, 31)


def _shifted(values: Tensor, by: int) -> Tensor:
    """64-bit integers, shifted right by `by` bits as if they were unsigned: zeros enter from the left."""
    return (values >> by) & ((1 << (64 - by)) - 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _last_possible(probs: Tensor) -> Tensor:
    """The highest token id with non-zero probability in each row [N]; rounding must not make `draw` exceed it."""
    indices = torch.arange(probs.shape[-1], device=probs.device)
    return (indices * (probs > 0)).amax(dim=-1)
