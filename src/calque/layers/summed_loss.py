"""The summed cross-entropy of a full softmax, with its gradient computed chunk by chunk.

Letters: M positions, m positions of a chunk, D width, V vocabulary.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from calque.layers.arithmetic import arithmetic

CHUNK = 1 << 22  # logits of a chunk: 16 MB, which a large cache holds; smaller chunks make slower products


def can_sum_in_chunks(hidden: Tensor, weight: Tensor) -> bool:
    """Whether `summed_cross_entropy` may compute the loss: on a CPU, if a gradient is needed.

    It may not in float16, where the gradient of the logits would underflow before the loss is scaled.
    """
    return (
        hidden.device.type == "cpu"
        and torch.is_grad_enabled()
        and (hidden.requires_grad or weight.requires_grad)
        and _compute_dtype(hidden) != torch.float16
        and arithmetic() >= 2
    )


def summed_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, *, smoothing: float, ignored: int
) -> Tensor:
    """The summed cross-entropy of targets [M], given hidden [M,D], weight [V,D] and bias [V]; in at least float32.

    With logits z = W h + b, p = softmax z and y = (1 − ε)·one-hot + ε/V, a position has

        loss   −Σ y log p = log Σ exp z − (1 − ε) z_target − ε·mean z
        gradient with respect to z   p − y

    Since the losses are summed, the gradient is known, up to a factor, as soon as the logits are: each chunk of
    positions adds its part of the gradients of h, W and b while its logits are in memory, and the logits are then
    discarded. Positions whose target is `ignored` are left out. The result can be differentiated once.
    """
    return _SummedCrossEntropy.apply(hidden, weight, bias, targets, smoothing, ignored)  # type: ignore[no-any-return,no-untyped-call]


class _SummedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float, ignored: int
    ) -> Tensor:
        dtype = _compute_dtype(hidden)
        wide = torch.promote_types(dtype, torch.float32)
        rows = (targets != ignored).nonzero().squeeze(1)
        targets = targets.index_select(0, rows)
        inputs = hidden.index_select(0, rows).to(dtype)
        matrix, offset = weight.to(dtype), bias.to(dtype)
        losses = torch.empty(len(rows), dtype=wide)
        of_inputs = torch.empty(len(rows), hidden.shape[1], dtype=hidden.dtype)
        of_weight, of_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        with torch.autocast("cpu", enabled=False):
            for part in _chunks(len(rows), vocabulary=len(weight)):
                logits = torch.addmm(offset, inputs[part], matrix.t()).to(wide)  # [m,V]
                losses[part] = _losses(logits, slopes := logits.softmax(dim=1), targets[part], smoothing=smoothing)
                _subtract_targets(slopes, targets[part], smoothing=smoothing)
                of_bias += slopes.sum(dim=0)
                narrow = slopes.to(dtype)
                of_inputs[part] = narrow @ matrix
                if of_weight.dtype == dtype:
                    of_weight.addmm_(narrow.t(), inputs[part])
                else:
                    of_weight += narrow.t() @ inputs[part]
        of_hidden = torch.zeros_like(hidden).index_copy_(0, rows, of_inputs)
        ctx.save_for_backward(of_hidden, of_weight, of_bias)
        return losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, ...]:
        gradients = zip(ctx.saved_tensors, ctx.needs_input_grad, strict=False)
        return (
            *(slope * factor.to(slope.dtype) if is_needed else None for slope, is_needed in gradients),
            None,
            None,
            None,
        )


def _compute_dtype(hidden: Tensor) -> torch.dtype:
    """The data type of matrix products: that of autocast if it is on, otherwise that of `hidden`."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else hidden.dtype


def _chunks(rows: int, *, vocabulary: int) -> Iterator[slice]:
    size = max(1, CHUNK // vocabulary)
    return (slice(start, start + size) for start in range(0, rows, size))


def _losses(logits: Tensor, probs: Tensor, targets: Tensor, *, smoothing: float) -> Tensor:
    """The losses [m] of targets [m], given their logits z and probabilities p = softmax z, [m,V] each.

    log Σ exp z is computed as max z − log(max p), which is accurate because max p is at least 1/V.
    """
    log_sums = logits.amax(dim=1) - probs.amax(dim=1).log()
    losses = log_sums - (1 - smoothing) * logits.gather(1, targets[:, None]).squeeze(1)
    return losses - smoothing * logits.mean(dim=1) if smoothing else losses


def _subtract_targets(probs: Tensor, targets: Tensor, *, smoothing: float) -> None:
    """Turns p [m,V] into p − y, the loss's gradient with respect to the logits, in place; y are smoothed targets."""
    if smoothing:
        probs -= smoothing / probs.shape[1]
    columns = targets[:, None]
    probs.scatter_(1, columns, probs.gather(1, columns) - (1 - smoothing))
