"""What may stand in the place of a decoder's self-attention: layers that carry one vector from token to token.

Letters: N rows, T tokens, D width. All have `start` and `read`, as `MultiHead` has.
"""

import torch
from torch import Tensor, nn

from calque.layers.feed_forward import FeedForward
from calque.layers.multihead import Chunk
from calque.tensors import running_sum


class Carrying(nn.Module):
    """Reads a chunk with what was carried so far; what is carried gathers many tokens, and is float32 at least."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def start(self, rows: int, *, like: Tensor) -> Tensor:
        """[N,D], what is carried before any token."""
        wide = torch.promote_types(like.dtype, torch.float32)
        return like.new_zeros(rows, self.width, dtype=wide)

    def read(self, inputs: Tensor, carried: Tensor, chunk: Chunk) -> tuple[Tensor, Tensor]:
        """[N,T,D] from [N,T,D], and [N,D] what is carried on."""
        raise NotImplementedError


class SSRU(Carrying):
    """The simpler simple recurrent unit (Kim et al. 2019, §3.1).

    f_t = σ(W_f x_t + b_f), c_t = f_t ⊙ c_{t−1} + (1 − f_t) ⊙ W x_t, o_t = ReLU(c_t); c_t is carried, c_0 = 0.
    The residual sum and the norm around it are the block's.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.forget = nn.Linear(width, width)
        self.candidate = nn.Linear(width, width, bias=False)

    def read(self, inputs: Tensor, carried: Tensor, chunk: Chunk) -> tuple[Tensor, Tensor]:
        forget = self.forget(inputs).sigmoid()
        cells = recur(forget, (1 - forget) * self.candidate(inputs), start=carried)
        return cells.relu().to(inputs.dtype), cells[:, -1]


class AverageAttention(Carrying):
    """The average attention network (Zhang, Xiong and Su 2018, §3.1); the sum of y_1 to y_j is carried.

    g_j = FFN(1/j · Σ_{k≤j} y_k) (eq. 1), [i_j; f_j] = σ(W [y_j; g_j]), h_j = i_j ⊙ y_j + f_j ⊙ g_j (eq. 2).
    The residual sum and the norm (eq. 3) are the block's, and so are the FFN's inner width and activation.
    """

    def __init__(self, width: int, *, feed_forward: FeedForward) -> None:
        super().__init__(width)
        self.feed_forward = feed_forward
        self.gates = nn.Linear(2 * width, 2 * width, bias=False)

    def read(self, inputs: Tensor, carried: Tensor, chunk: Chunk) -> tuple[Tensor, Tensor]:
        sums = carried[:, None] + running_sum(inputs.to(carried.dtype), dim=1)
        means = sums / (chunk.places + 1)[..., None]
        found = self.feed_forward(means.to(inputs.dtype))
        enter, forget = self.gates(torch.cat([inputs, found], dim=-1)).sigmoid().chunk(2, dim=-1)
        return enter * inputs + forget * found, sums[:, -1]


def recur(decay: Tensor, inputs: Tensor, *, start: Tensor) -> Tensor:
    """[N,T,D], all c_t = decay_t ⊙ c_{t−1} + inputs_t, c_0 = `start` [N,D].

    One cheap operation a token. Doubling the reach log₂ T times gives the same without a loop, but copies everything
    each time: on a CPU it took 4 to 16 times as long (8 to 100 tokens, width 256 and 512).
    """
    cell, cells = start, []
    for kept, new in zip(decay.unbind(1), inputs.unbind(1), strict=True):
        cell = torch.addcmul(new, kept, cell)
        cells.append(cell)
    return torch.stack(cells, dim=1)
