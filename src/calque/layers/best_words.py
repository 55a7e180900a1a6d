"""The most likely words given logits on a GPU, in two passes over few numbers instead of sorting the vocabulary.

The C best words lie in at most C groups of 64 neighbours, whose largest logits come with the normaliser from one pass
over the logits. Letters: N rows, V vocabulary, C best words.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from calque.tensors import best_candidates

GROUP = 64


class BestWords(NamedTuple):
    """The most likely words of each row."""

    log_probs: Tensor  # [N,C], best first
    words: Tensor  # [N,C]; of equally likely words, the lower id first
    ends: Tensor  # [N], the log-probability of the end mark


def best_words(logits: Tensor, *, count: int, end: int) -> BestWords:
    """The `count` words with the largest logits [N,V], with their log-probabilities and that of the word `end`."""
    if logits.is_cuda:
        from calque.layers.kernels import vocabulary_summary  # needs Triton

        normaliser, groups = vocabulary_summary(logits, vocabulary=logits.shape[1])
    else:
        normaliser, groups = clear_vocabulary_summary(logits)
    _, chosen = best_candidates(groups, count=count)
    words = (chosen.sort(dim=1).values[..., None] * GROUP + torch.arange(GROUP, device=logits.device)).flatten(1)
    values = logits.gather(1, words.clamp(max=logits.shape[1] - 1)).float()
    values, places = best_candidates(values.masked_fill(words >= logits.shape[1], -torch.inf), count=count)
    return BestWords(values - normaliser[:, None], words.gather(1, places), logits[:, end].float() - normaliser)


def clear_vocabulary_summary(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The normaliser log Σ exp [N] of logits [N,V], and the largest [N,⌈V/64⌉] of every 64 neighbours."""
    wide = logits.float()
    padded = torch.nn.functional.pad(wide, (0, -wide.shape[1] % GROUP), value=-torch.inf)
    return wide.logsumexp(dim=1), padded.view(len(wide), -1, GROUP).amax(dim=2)
