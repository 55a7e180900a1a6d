"""Output layers: the common interface, and the full softmax.

Letters: M positions, D width, V vocabulary.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config
from calque.layers.best_words import BestWords, best_words
from calque.layers.padded_output import is_padded, padded_cross_entropy
from calque.layers.summed_loss import can_sum_in_chunks, summed_cross_entropy
from calque.native.operations import best_words as native_best_words
from calque.native.operations import is_usable
from calque.tensors import best_candidates

BEST_ROWS = 128  # whose log-probabilities are held at a time when only the best words are wanted


class OutputLayer(nn.Module):
    """An output layer: the probabilities of the next word, given hidden vectors.

    Law: in evaluation mode, the loss without label smoothing is the negative `log_probs` of the target.

    Corpus statistics, such as word ranks, are parameters without gradients, so that they are saved with the weights.
    """

    def log_probs(self, hidden: Tensor) -> Tensor:
        """Log-probabilities [...,V] of all words, given hidden [...,D]; exact, and normalised in at least float32."""
        raise NotImplementedError

    def best(self, hidden: Tensor, *, count: int, end: int) -> BestWords:
        """The `count` most likely words, given hidden [M,D], and the log-probability of the word `end`.

        On a CPU, log-probabilities of all words are held for a few rows at a time: they stay in the processor's cache,
        and memory does not grow with the batch.
        """
        parts = []
        for rows in torch.split(hidden, BEST_ROWS if hidden.device.type == "cpu" else max(1, len(hidden))):
            log_probs = self.log_probs(rows)
            parts.append(BestWords(*best_candidates(log_probs, count=count), log_probs[:, end]))
        return _joined(parts)

    def loss(self, hidden: Tensor, targets: Tensor, *, smoothing: float, ignored: int = -100) -> Tensor:
        """The loss [M] of `targets` [M], given `hidden` [M,D]; 0 where the target is `ignored`."""
        raise NotImplementedError

    def total_loss(self, hidden: Tensor, targets: Tensor, *, smoothing: float, ignored: int = -100) -> Tensor:
        """The sum of `loss` over all positions; a layer may compute it without the individual losses."""
        return self.loss(hidden, targets, smoothing=smoothing, ignored=ignored).sum()

    def learn_frequencies(self, counts: Tensor) -> None:
        """Sets the corpus statistics before training, given how often each word is a target (`counts` [V])."""

    def fault(self) -> str | None:
        """An error message if the corpus statistics, as loaded from a file, are invalid; None if they are valid."""
        return None


class FullOutputConfig(Config):
    """The softmax over the whole vocabulary."""

    kind: Literal["full"] = "full"


class FullOutput(OutputLayer):
    """A softmax over the vocabulary; its weight may be tied to an embedding (Press and Wolf 2017)."""

    def __init__(self, vocabulary_size: int, *, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary_size, width))
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))
        self.product: nn.Module | None = None  # computes the logits in its place, see `packed` and `int8`
        self.padded_loss = padded_cross_entropy  # on a GPU; `compile_loss` replaces it by a graph
        nn.init.normal_(self.weight, std=width**-0.5)

    def logits(self, hidden: Tensor) -> Tensor:
        """The unnormalised scores [...,V] of all words, given hidden vectors [...,D]."""
        if self.product is not None:
            return self.product(hidden)  # type: ignore[no-any-return]
        return F.linear(hidden, self.weight, self.bias)

    def log_probs(self, hidden: Tensor) -> Tensor:
        return F.log_softmax(wide(self.logits(hidden)), dim=-1)

    def best(self, hidden: Tensor, *, count: int, end: int) -> BestWords:
        if hidden.is_cuda and hidden.dtype != torch.float64:
            return best_words(self.logits(hidden), count=count, end=end)
        if self.product is None or not is_usable(hidden) or count > len(self.bias):
            return super().best(hidden, count=count, end=end)
        chunks = torch.split(hidden, BEST_ROWS)
        return _joined([BestWords(*native_best_words(self.logits(rows), count=count, end=end)) for rows in chunks])

    def loss(self, hidden: Tensor, targets: Tensor, *, smoothing: float, ignored: int = -100) -> Tensor:
        """The cross-entropy [M] of `targets` [M], given `hidden` [M,D]; 0 where the target is `ignored`.

        With smoothing ε the target is (1 − ε)·one-hot + ε·uniform over the vocabulary (Szegedy 2016, §7).
        """
        logits = wide(self.logits(hidden))
        return F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing, ignore_index=ignored)

    def total_loss(self, hidden: Tensor, targets: Tensor, *, smoothing: float, ignored: int = -100) -> Tensor:
        if can_sum_in_chunks(hidden, self.weight):
            return summed_cross_entropy(hidden, self.weight, self.bias, targets, smoothing=smoothing, ignored=ignored)
        if is_padded(hidden, self.weight):
            return self.padded_loss(hidden, self.weight, self.bias, targets, smoothing=smoothing, ignored=ignored)
        return super().total_loss(hidden, targets, smoothing=smoothing, ignored=ignored)


def _joined(parts: list[BestWords]) -> BestWords:
    return parts[0] if len(parts) == 1 else BestWords(*(torch.cat(part) for part in zip(*parts, strict=True)))


def wide(logits: Tensor) -> Tensor:
    """The logits in at least float32."""
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
