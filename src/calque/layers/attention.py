"""Attention of one head: scores between queries and keys, then a weighted mean of values.

Letters: B sentences, K beams, N = B·K, S source, T target, Q = K·T queries a sentence, D query width, M memory width.
"""

from typing import Literal, NamedTuple, assert_never

import torch
from torch import Tensor, nn

ScoreName = Literal["dot", "general", "concat"]


class Attended(NamedTuple):
    """What a query found, and where it looked."""

    context: Tensor  # [B,Q,M]
    weights: Tensor  # [B,Q,S]


class Score(nn.Module):
    """How well each query fits each source position; `keys` is computed once a sentence."""

    def keys(self, memory: Tensor) -> Tensor:
        """[B,S,A] from [B,S,M]."""
        raise NotImplementedError

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """[B,Q,S] from [B,Q,D] and [B,S,A]."""
        raise NotImplementedError


class DotScore(Score):
    """hᵗ·h̄ˢ (Luong 2015, eq. 8)."""

    def keys(self, memory: Tensor) -> Tensor:
        return memory

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.transpose(1, 2)


class GeneralScore(DotScore):
    """hᵗ·W h̄ˢ (Luong 2015, eq. 8)."""

    def __init__(self, query_width: int, *, memory_width: int) -> None:
        super().__init__()
        self.key = nn.Linear(memory_width, query_width, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return self.key(memory)  # type: ignore[no-any-return]


class AdditiveScore(Score):
    """v·tanh(W s + U h) (Bahdanau 2015, A.1.2); Luong's *concat* is the same, W and U being halves of one matrix."""

    def __init__(self, query_width: int, *, memory_width: int, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, width, bias=False)
        self.key = nn.Linear(memory_width, width, bias=False)
        self.value = nn.Linear(width, 1, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return self.key(memory)  # type: ignore[no-any-return]

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        energy = torch.tanh(self.query(queries)[:, :, None] + keys[:, None])  # [B,Q,S,A]
        return self.value(energy).squeeze(-1)  # type: ignore[no-any-return]


def build_score(name: ScoreName, *, query_width: int, memory_width: int) -> Score:
    """Luong's score of that name."""
    match name:
        case "dot":
            return DotScore()
        case "general":
            return GeneralScore(query_width, memory_width=memory_width)
        case "concat":
            return AdditiveScore(query_width, memory_width=memory_width, width=query_width)
        case _:
            assert_never(name)


def attend(scores: Tensor, *, values: Tensor, mask: Tensor) -> Attended:
    """The mean of `values` [B,S,M] under the softmax of `scores` [B,Q,S] where `mask` [B,S] is true."""
    weights = scores.masked_fill(~mask[:, None], -torch.inf).softmax(dim=-1)
    return Attended(weights @ values, weights)


def fold(rows: Tensor, *, sentences: int) -> Tensor:
    """[N,T,D] as [B,K·T,D]: all queries of a sentence together, so that its memory is shared and never tiled."""
    return rows.reshape(sentences, -1, rows.shape[-1])


def unfold(queries: Tensor, *, rows: int) -> Tensor:
    """[B,K·T,X] back to [N,T,X]."""
    return queries.reshape(rows, -1, queries.shape[-1])
