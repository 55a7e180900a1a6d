"""The most likely words given logits, without sorting the vocabulary. Letters: N rows, V vocabulary, C best words."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from calque.tensors import best_candidates


class BestWords(NamedTuple):
    """The most likely words of each row."""

    log_probs: Tensor  # [N,C], best first
    words: Tensor  # [N,C]; of equally likely words, the lower id first
    ends: Tensor  # [N], the log-probability of the end mark


def best_words(logits: Tensor, *, count: int, end: int) -> BestWords:
    """The `count` words with the largest logits [N,V], with their log-probabilities and that of the word `end`.

    On a GPU, a kernel reads the logits once and returns nothing but these words.
    """
    if logits.is_cuda and logits.dtype != torch.float64 and count <= logits.shape[1]:
        from calque.layers.best_words_kernel import best_words as fast  # needs Triton

        return BestWords(*fast(logits, count=count, end=end))
    wide = logits if logits.dtype == torch.float64 else logits.float()
    log_probs = F.log_softmax(wide, dim=-1)
    return BestWords(*best_candidates(log_probs, count=count), log_probs[:, end])
