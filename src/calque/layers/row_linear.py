"""Linear layers of one new token per hypothesis in decoding on a GPU, where each kernel that is launched counts.

A sub-layer of a Transformer normalises its input, multiplies it with a matrix and adds the residual stream. For 16 rows
or fewer, this is one kernel here instead of three to five. For more rows, which need a library's tiled product, the sum
and the normalisation of the next sub-layer are one kernel: on an H200, a `base` model decodes 128 sentences 1.23 times
as fast (benchmarks/results/decode-gpu_nvidia-h200_2026-11-18.md, with the gains for few rows).

Letters: N rows, D input width, F output width.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ROWS = 16  # as many as the smallest tile of a matrix product on a GPU
WIDEST = {torch.float32: 512, torch.bfloat16: 1024, torch.float16: 1024}
"""The widest rows that a program can normalise, as it holds whole rows in shared memory."""


class Rows(NamedTuple):
    """Vectors, and the normalisation that the layer reading them must apply first, if any."""

    values: Tensor  # [N,D]
    norm: nn.LayerNorm | None = None
    normalised_values: Tensor | None = None  # norm(values), if they have been computed already

    def normalised(self) -> Tensor:
        if self.normalised_values is not None:
            return self.normalised_values
        return self.values if self.norm is None else self.norm(self.values)


def linear_rows(inputs: Rows, weight: Tensor, bias: Tensor, *, relu: bool = False) -> Tensor:
    """y = W norm(x) + b [N,F] or, if `relu` is set, max(0, y); norm is the one that comes with the rows x, if any."""
    if is_few(inputs.values, normalised=inputs.norm is not None):
        from calque.layers.row_linear_kernel import linear_rows as fast  # needs Triton

        return fast(inputs.values, inputs.norm, weight, bias, relu=relu, added=None, added_norm=None, tile=ROWS)
    values = inputs.normalised()
    if relu and values.is_cuda and values.dtype != torch.float64:
        return torch._addmm_activation(bias, values, weight.t())  # one kernel
    outputs = F.linear(values, weight, bias)
    return outputs.relu() if relu else outputs


def linear_sum(inputs: Tensor, weight: Tensor, bias: Tensor, *, added: Rows, norm: nn.LayerNorm) -> Rows:
    """W x + b + norm(a) [N,F], with the normalisation `norm` to be applied next; `added` are the rows a with theirs."""
    if is_few(inputs, normalised=False) and (added.norm is None or is_few(added.values, normalised=True)):
        from calque.layers.row_linear_kernel import linear_rows as fast  # needs Triton

        values, added_norm, _ = added
        return Rows(fast(inputs, None, weight, bias, relu=False, added=values, added_norm=added_norm, tile=ROWS), norm)
    outputs, stream = F.linear(inputs, weight, bias), added.normalised()
    if inputs.is_cuda and inputs.dtype != torch.float64:
        from calque.layers.row_linear_kernel import add_norm  # needs Triton

        total, normalised = add_norm(outputs, stream, norm=norm)
        return Rows(total, norm, normalised)
    return Rows(stream + outputs, norm)


def is_few(values: Tensor, *, normalised: bool) -> bool:
    """Whether one kernel computes a layer for rows [N,D]: at most 16, on a GPU and, if `normalised`, not too wide."""
    has_kernel = values.is_cuda and len(values) <= ROWS and values.dtype in WIDEST
    return has_kernel and not (normalised and values.shape[1] > WIDEST[values.dtype])
