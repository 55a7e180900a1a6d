"""The summed cross-entropy of a full softmax on a GPU, with logits for a vocabulary padded to a multiple of `MULTIPLE`.

Letters: M positions, D width, V vocabulary, P padded vocabulary.

A row of 32,004 numbers in bfloat16 is not a multiple of 16 bytes long, so cuBLAS computes the output layer's three
matrix products (one forward, two backward) with unaligned kernels, at less than half the speed of aligned ones. Padding
the vocabulary aligns the rows.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from calque.layers.arithmetic import arithmetic

MULTIPLE = 64  # numbers in a row of a kernel's tile; 8 would align rows, 64 also leaves no tile half empty


def is_padded(hidden: Tensor, weight: Tensor) -> bool:
    """Whether the loss uses padded logits: on a GPU, if gradients are needed and `training.arithmetic` ≥ 3."""
    needs_gradient = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    return hidden.device.type == "cuda" and needs_gradient and arithmetic() >= 3


def padded_logits(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The logits [M,P] of hidden vectors [M,D]; columns from V on belong to padding, with weights of 0.

    The padding is part of the product, not of the parameters: no file and no optimiser sees it, and its gradient is
    discarded. Law: the first V columns are `F.linear(hidden, weight, bias)`.
    """
    missing = -len(weight) % MULTIPLE
    if not missing:
        return F.linear(hidden, weight, bias)
    return F.linear(hidden, F.pad(weight, (0, 0, 0, missing)), F.pad(bias, (0, missing)))


def padded_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, *, smoothing: float, ignored: int
) -> Tensor:
    """The summed cross-entropy of targets [M] from padded logits; the readable version of `graph_cross_entropy`."""
    logits = _wide(padded_logits(hidden, weight, bias)[:, : len(weight)])
    return F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing, ignore_index=ignored).sum()


def graph_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, *, smoothing: float, ignored: int
) -> Tensor:
    """`padded_cross_entropy`, written for a compiler: reductions for the loss, and one pointwise pass for the gradient.

    With logits z, a position has the loss log Σ exp z − (1 − ε) z_target − ε·mean z. The target's logit is computed as
    a masked sum over all words: the gradient of a masked sum is a mask, whereas that of indexing is a scatter-add.
    Without compilation, every operation would be a pass over all logits. Variants with the maximum and the sum in one
    pass, or with indices of 32 bits, were slower (benchmarks/results/train_h200_2026-11-17.md).
    """
    size = len(weight)
    logits = _wide(padded_logits(hidden, weight, bias))
    words = torch.arange(logits.shape[1], device=logits.device)
    is_word = words < size
    log_sums = logits.masked_fill(~is_word, -torch.inf).logsumexp(dim=1)
    of_targets = torch.where(words == targets[:, None], logits, 0.0).sum(dim=1)
    losses = log_sums - (1 - smoothing) * of_targets
    if smoothing:
        losses = losses - smoothing / size * torch.where(is_word, logits, 0.0).sum(dim=1)
    return losses.masked_fill(targets == ignored, 0.0).sum()


def _wide(logits: Tensor) -> Tensor:
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
