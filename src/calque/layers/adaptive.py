"""The adaptive softmax: frequent words at full width, rare words in clusters of reduced width.

Letters: M positions, D width, V vocabulary, C clusters.
"""

from itertools import pairwise
from typing import Annotated, Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config
from calque.layers.output import OutputLayer, wide


class AdaptiveOutputConfig(Config):
    """A softmax over clusters of words of similar frequency (Grave et al. 2017); needs training.label_smoothing = 0."""

    kind: Literal["adaptive"] = "adaptive"
    cutoffs: Annotated[tuple[int, ...], Field(max_length=8)] = ()
    """Frequency ranks at which the clusters of rarer words begin; by default, a tenth and half of the vocabulary."""
    shrink: float = Field(default=4.0, ge=1, le=100)
    """Each cluster's vectors are this many times narrower than those of the previous one."""

    @field_validator("cutoffs")
    @classmethod
    def _ascending(cls, cutoffs: tuple[int, ...]) -> tuple[int, ...]:
        if list(cutoffs) != sorted({*cutoffs}) or min(cutoffs, default=1) < 1:
            raise ValueError(f"{list(cutoffs)} must be ranks of at least 1 in strictly ascending order")
        return cutoffs


class AdaptiveOutput(OutputLayer):
    """A two-level softmax over words sorted by frequency (Grave et al. 2017, §4).

    The head covers the most frequent words and the C clusters of all others; a word in cluster c has

        P(w | h) = P_head(c | h) · P_c(w | h),   P_c = softmax(V_c U_c h),   U_c with D / shrink^c rows
    """

    def __init__(self, config: AdaptiveOutputConfig, *, vocabulary_size: int, width: int) -> None:
        super().__init__()
        cutoffs = config.cutoffs or default_cutoffs(vocabulary_size)
        if cutoffs[-1] >= vocabulary_size:
            raise ValueError(
                f"cutoffs {list(cutoffs)} must all be below the target vocabulary size of {vocabulary_size}"
            )
        if width // config.shrink ** len(cutoffs) < 1:
            raise ValueError(
                f"width {width} is too small for {len(cutoffs)} clusters, each narrower by a factor of "
                f"{config.shrink:g}; set fewer cutoffs or a smaller shrink"
            )
        self.softmax = nn.AdaptiveLogSoftmaxWithLoss(width, vocabulary_size, cutoffs, div_value=config.shrink)
        self.ranks = nn.Parameter(torch.arange(vocabulary_size), requires_grad=False)  # [V], the rank of each word

    @torch.no_grad()
    def learn_frequencies(self, counts: Tensor) -> None:
        """Ranks the words by their `counts` [V] in the training data, most frequent first; ties go to the lower id."""
        self.ranks.copy_(counts.argsort(descending=True, stable=True).argsort())

    def fault(self) -> str | None:
        is_permutation = torch.equal(self.ranks.sort().values, torch.arange(len(self.ranks), device=self.ranks.device))
        return None if is_permutation else "ranks does not contain every rank exactly once"

    def log_probs(self, hidden: Tensor) -> Tensor:
        head, frequent = _log_softmax(self.softmax.head, hidden), self.softmax.shortlist_size
        rare = [
            head[..., frequent + cluster, None] + _log_softmax(tail, hidden)
            for cluster, tail in enumerate(self.softmax.tail)
        ]
        return torch.cat([head[..., :frequent], *rare], dim=-1).index_select(-1, self.ranks)

    def loss(self, hidden: Tensor, targets: Tensor, *, smoothing: float, ignored: int = -100) -> Tensor:
        """[M], the cross-entropy of `targets` [M] under `hidden` [M,D]; 0 where the target is `ignored`.

        A cluster's softmax is computed only at positions whose target is in the cluster. The result equals that of
        AdaptiveLogSoftmaxWithLoss.forward, which neither supports mixed precision nor normalises in float32.
        """
        assert smoothing == 0, "the adaptive softmax does not support label smoothing"
        is_ignored = targets == ignored
        ranks = self.ranks[targets.masked_fill(is_ignored, 0)].masked_fill(is_ignored, 0)  # rank 0 is the cheapest
        head, frequent = _log_softmax(self.softmax.head, hidden), self.softmax.shortlist_size
        head_index = ranks.clone()  # of the word or of its cluster
        log_probs = torch.zeros_like(head[:, 0])
        for cluster, (start, stop) in enumerate(pairwise(self.softmax.cutoffs)):  # empty clusters get zero gradients
            rows = ((ranks >= start) & (ranks < stop)).nonzero().squeeze(1)
            cluster_log_probs = _log_softmax(self.softmax.tail[cluster], hidden.index_select(0, rows))
            word_log_probs = cluster_log_probs.gather(1, ranks.index_select(0, rows)[:, None] - start).squeeze(1)
            log_probs = log_probs.index_add(0, rows, word_log_probs)
            head_index = head_index.index_fill(0, rows, frequent + cluster)
        log_probs = log_probs + head.gather(1, head_index[:, None]).squeeze(1)
        return (-log_probs).masked_fill(is_ignored, 0)


def default_cutoffs(vocabulary_size: int) -> tuple[int, ...]:
    """The default cutoffs: the ranks that end the most frequent tenth and the most frequent half of the vocabulary.

    By Zipf's law, the first tenth covers about four fifths of a text.
    """
    return tuple(sorted({max(1, vocabulary_size // 10), max(1, vocabulary_size // 2)}))


def _log_softmax(layer: nn.Module, hidden: Tensor) -> Tensor:
    return F.log_softmax(wide(layer(hidden)), dim=-1)
