"""The sampled softmax: in training, a few words sampled from the corpus distribution represent the vocabulary.

Letters: M positions, D width, V vocabulary, n samples.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config
from calque.layers.bounds import Samples
from calque.layers.output import FullOutput, wide
from calque.tensors import exact, running_sum


class SampledOutputConfig(Config):
    """The softmax over the whole vocabulary, trained on a sample of words per batch (Jean et al. 2015, §3)."""

    kind: Literal["sampled"] = "sampled"
    samples: Samples = 1024
    """Words sampled per batch; more are closer to the full softmax, fewer are faster."""


class SampledOutput(FullOutput):
    """A softmax whose partition function is estimated in training and exact in evaluation.

    With l the logits, y the target and w₁…wₙ sampled with replacement from the word distribution q of the corpus,

        loss = −l_y + log(e^{l_y} + Σ_{s: w_s ≠ y} e^{l_{w_s}} / (n·q_{w_s}))

    (Jean et al. 2015, §3; Bengio and Senécal 2008). The sum in the logarithm is an unbiased estimate of the partition
    function Σ_w e^{l_w}: the target is counted exactly, every other word with importance weight 1 / (n·q).
    """

    def __init__(self, config: SampledOutputConfig, *, vocabulary_size: int, width: int) -> None:
        super().__init__(vocabulary_size, width=width)
        self.samples = config.samples
        self.proposal = nn.Parameter(torch.full((vocabulary_size,), 1 / vocabulary_size), requires_grad=False)

    @torch.no_grad()
    def learn_frequencies(self, counts: Tensor) -> None:
        """Sets the sampling distribution q: relative word frequencies, with add-one smoothing of `counts` [V]."""
        smoothed = counts.double() + 1
        self.proposal.copy_((smoothed / smoothed.sum()).to(self.proposal.dtype))

    def loss(self, hidden: Tensor, targets: Tensor, *, smoothing: float, ignored: int = -100) -> Tensor:
        """The loss [M] of `targets` [M], given `hidden` [M,D]; 0 where the target is `ignored`.

        In training, all positions share one set of sampled words; in evaluation, the loss is exact.
        """
        if not self.training:
            return super().loss(hidden, targets, smoothing=smoothing, ignored=ignored)
        assert smoothing == 0, "the sampled softmax does not support label smoothing in training"
        is_ignored = targets == ignored
        targets = targets.masked_fill(is_ignored, 0)
        samples = draw(self.proposal, count=self.samples)
        expected = wide(self.samples * self.proposal.index_select(0, samples))
        sample_logits = F.linear(hidden, F.embedding(samples, self.weight), self.bias.index_select(0, samples))
        sample_logits = (wide(sample_logits) - expected.log()).masked_fill(
            samples == targets[:, None], -torch.inf
        )  # [M,n]
        target_logits = (hidden * F.embedding(targets, self.weight)).sum(dim=1) + self.bias.index_select(0, targets)
        logits = torch.cat([wide(target_logits)[:, None], sample_logits], dim=1)
        labels = torch.zeros_like(targets).masked_fill(is_ignored, -100)
        return F.cross_entropy(logits, labels, reduction="none", ignore_index=-100)

    def total_loss(self, hidden: Tensor, targets: Tensor, *, smoothing: float, ignored: int = -100) -> Tensor:
        return self.loss(hidden, targets, smoothing=smoothing, ignored=ignored).sum()


def draw(probs: Tensor, *, count: int) -> Tensor:
    """[n], words sampled with replacement from probs [V], by inverting their cumulative sum.

    `torch.multinomial` does the same, but has no deterministic kernel on GPUs.
    """
    sums = running_sum(exact(probs), dim=0)
    numbers = torch.rand(count, dtype=sums.dtype, device=sums.device) * sums[-1]
    return torch.searchsorted(sums, numbers, right=True).clamp(max=len(probs) - 1)
