"""From hidden vectors to words. Letters: M positions, D width, V vocabulary."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class OutputLayer(nn.Module):
    """A softmax over the vocabulary; its weight may be an embedding's own (Press and Wolf 2017)."""

    def __init__(self, vocabulary_size: int, *, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary_size, width))
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))
        nn.init.normal_(self.weight, std=width**-0.5)

    def logits(self, hidden: Tensor) -> Tensor:
        """[...,V] from [...,D]."""
        return F.linear(hidden, self.weight, self.bias)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """[...,V], normalised in float32 at least."""
        return F.log_softmax(_wide(self.logits(hidden)), dim=-1)

    def loss(self, hidden: Tensor, targets: Tensor, *, smoothing: float, ignored: int = -100) -> Tensor:
        """[M], the cross-entropy of `targets` [M] under `hidden` [M,D]; 0 where the target is `ignored`.

        With smoothing ε the target is (1 − ε)·one-hot + ε·uniform over the vocabulary (Szegedy 2016, §7).
        """
        logits = _wide(self.logits(hidden))
        return F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing, ignore_index=ignored)


def _wide(logits: Tensor) -> Tensor:
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
