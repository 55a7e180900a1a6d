"""Linear layers for a few rows on a GPU, where launching a kernel takes longer than its arithmetic.

A sub-layer of a Transformer normalises its input, multiplies it with a matrix and adds the residual stream. For 16 rows
or fewer this is one kernel here instead of three to five; more rows need a library's tiled product. On an
H200, a `base` model decodes one sentence 1.28 times as fast greedily and 1.42 times with a beam of 5.

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

    def normalised(self) -> Tensor:
        return self.values if self.norm is None else self.norm(self.values)


def linear_rows(inputs: Rows, weight: Tensor, bias: Tensor, *, relu: bool = False, added: Rows | None = None) -> Tensor:
    """y = W norm(x) + b [N,F] or, if `relu` is set, max(0, y); plus norm(a) if rows a [N,F] are `added`.

    norm is the normalisation that comes with the `Rows` of x and a, or the identity if they have none.
    """
    if fits(inputs.values, normalised=inputs.norm is not None):
        from calque.layers.few_rows_kernel import linear_rows as fast  # needs Triton

        values, norm = added or (None, None)
        return fast(*inputs, weight, bias, relu=relu, added=values, added_norm=norm, tile=ROWS)
    outputs = F.linear(inputs.normalised(), weight, bias)
    outputs = outputs.relu() if relu else outputs
    return outputs if added is None else outputs + added.normalised()


def fits(values: Tensor, *, normalised: bool) -> bool:
    """Whether the kernel takes rows [N,D]: at most 16, on a GPU, not in float64 and, if `normalised`, not too wide."""
    is_few = values.is_cuda and len(values) <= ROWS and values.dtype in WIDEST
    return is_few and not (normalised and values.shape[1] > WIDEST[values.dtype])
