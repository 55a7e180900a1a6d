"""From hidden vectors to words: what every output layer does, and the full softmax.

Letters: M positions, D width, V vocabulary.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config


class OutputLayer(nn.Module):
    """Probabilities of words.   Law: in evaluation, loss without smoothing is −log_probs at the target.

    What a layer knows of the corpus is a parameter that no gradient moves, so that it is saved with the weights.
    """

    def log_probs(self, hidden: Tensor) -> Tensor:
        """[...,V] from [...,D], exact, normalised in float32 at least."""
        raise NotImplementedError

    def loss(self, hidden: Tensor, targets: Tensor, *, smoothing: float, ignored: int = -100) -> Tensor:
        """[M], the loss of `targets` [M] under `hidden` [M,D]; 0 where the target is `ignored`."""
        raise NotImplementedError

    def learn_frequencies(self, counts: Tensor) -> None:
        """Takes in how often each word [V] is a target in the corpus, before training."""

    def fault(self) -> str | None:
        """What is wrong with the values of parameters that no gradient moves, where they came from a file."""
        return None


class FullOutputConfig(Config):
    """The softmax over the whole vocabulary."""

    kind: Literal["full"] = "full"


class FullOutput(OutputLayer):
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
        return F.log_softmax(wide(self.logits(hidden)), dim=-1)

    def loss(self, hidden: Tensor, targets: Tensor, *, smoothing: float, ignored: int = -100) -> Tensor:
        """[M], the cross-entropy of `targets` [M] under `hidden` [M,D]; 0 where the target is `ignored`.

        With smoothing ε the target is (1 − ε)·one-hot + ε·uniform over the vocabulary (Szegedy 2016, §7).
        """
        logits = wide(self.logits(hidden))
        return F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing, ignore_index=ignored)


def wide(logits: Tensor) -> Tensor:
    """The same numbers in float32 at least."""
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
