"""The probability of each piece of a text, and the most likely alternatives. Dimensions: T pieces, V vocabulary."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

RUNNERS_UP = 5

PieceName = Callable[[int], str]
"""A function from a token id to the piece as text."""


class Alternative(NamedTuple):
    """A piece that the model could have chosen instead, and its log-probability."""

    piece: str
    log_prob: float


class TargetStep(NamedTuple):
    """One piece of a text, its probability, and the most likely alternatives to it."""

    piece: str
    log_prob: float
    rank: int  # among all pieces, from 1
    entropy: float  # of the next piece, in nats
    runners_up: list[Alternative]
    copying: float | None = None  # the probability of copying, of models that copy


def next_token_steps(log_probs: Tensor, ids: Sequence[int], *, piece: PieceName) -> list[TargetStep]:
    """For each of T ids, its probability, rank and alternatives, given the log-probabilities [T,V] at its position."""
    entropies = torch.special.entr(log_probs.exp()).sum(dim=1).tolist()
    chosen = log_probs.gather(1, torch.tensor(ids)[:, None])
    ranks = (1 + (log_probs > chosen).sum(dim=1)).tolist()
    steps = []
    for place, (id, log_prob) in enumerate(zip(ids, chosen.squeeze(1).tolist(), strict=True)):
        others = [item for item in _likeliest(log_probs[place], count=RUNNERS_UP + 1) if item[0] != id]
        runners_up = [Alternative(piece(other), value) for other, value in others[:RUNNERS_UP]]
        steps.append(TargetStep(piece(id), log_prob, ranks[place], entropies[place], runners_up))
    return steps


def likeliest(log_probs: Tensor, *, count: int, piece: PieceName) -> list[Alternative]:
    """The `count` most probable pieces, given log-probabilities [V]; fewer if all others are impossible."""
    return [Alternative(piece(id), value) for id, value in _likeliest(log_probs, count=count)]


def _likeliest(log_probs: Tensor, *, count: int) -> list[tuple[int, float]]:
    values, ids = log_probs.topk(min(count, len(log_probs)))
    pairs = zip(ids.tolist(), values.tolist(), strict=True)
    return [(id, value) for id, value in pairs if value > -torch.inf]
