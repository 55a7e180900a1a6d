"""Alternatives to a decoder's self-attention: recurrent layers, whose state is one vector of fixed size.

Letters: N rows, T tokens, D width. Like `MultiHead`, all have `start` and `read`.
"""

import torch
from torch import Tensor, nn

from calque.layers.feed_forward import FeedForward
from calque.layers.multihead import Chunk
from calque.tensors import running_sum


class RecurrentMixer(nn.Module):
    """A layer that can replace the self-attention of a decoder: it carries one state vector from token to token.

    The state accumulates many tokens and is therefore at least float32.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def start(self, rows: int, *, like: Tensor) -> Tensor:
        """The state [N,D] before the first token: zeros."""
        wide = torch.promote_types(like.dtype, torch.float32)
        return like.new_zeros(rows, self.width, dtype=wide)

    def read(self, inputs: Tensor, carried: Tensor, chunk: Chunk) -> tuple[Tensor, Tensor]:
        """The outputs [N,T,D] for the inputs [N,T,D] of a chunk of T tokens, and the state [N,D] after them."""
        raise NotImplementedError


class SSRU(RecurrentMixer):
    """The simpler simple recurrent unit (Kim et al. 2019, §3.1).

    f_t = σ(W_f x_t + b_f), c_t = f_t ⊙ c_{t−1} + (1 − f_t) ⊙ W x_t, o_t = ReLU(c_t). The state is c_t, with c_0 = 0.
    The Transformer block around this layer adds the residual sum and the norm.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.forget = nn.Linear(width, width)
        self.candidate = nn.Linear(width, width, bias=False)

    def read(self, inputs: Tensor, carried: Tensor, chunk: Chunk) -> tuple[Tensor, Tensor]:
        forget = self.forget(inputs).sigmoid()
        cells = recur(forget, (1 - forget) * self.candidate(inputs), start=carried)
        return cells.relu().to(inputs.dtype), cells[:, -1]


class AverageAttention(RecurrentMixer):
    """The average attention network (Zhang, Xiong and Su 2018, §3.1), whose state is the sum of its inputs y_1 to y_j.

    g_j = FFN(1/j · Σ_{k≤j} y_k) (eq. 1), [i_j; f_j] = σ(W [y_j; g_j]), h_j = i_j ⊙ y_j + f_j ⊙ g_j (eq. 2).
    The Transformer block around this layer adds the residual sum and the norm (eq. 3), and configures the FFN.
    """

    def __init__(self, width: int, *, feed_forward: FeedForward) -> None:
        super().__init__(width)
        self.feed_forward = feed_forward
        self.gates = nn.Linear(2 * width, 2 * width, bias=False)

    def read(self, inputs: Tensor, carried: Tensor, chunk: Chunk) -> tuple[Tensor, Tensor]:
        sums = carried[:, None] + running_sum(inputs.to(carried.dtype), dim=1)
        means = sums / (chunk.places + 1)[..., None]
        averaged = self.feed_forward(means.to(inputs.dtype))
        input_gate, forget_gate = self.gates(torch.cat([inputs, averaged], dim=-1)).sigmoid().chunk(2, dim=-1)
        return input_gate * inputs + forget_gate * averaged, sums[:, -1]


def recur(decay: Tensor, inputs: Tensor, *, start: Tensor) -> Tensor:
    """All states [N,T,D] of the recurrence c_t = decay_t ⊙ c_{t−1} + inputs_t, c_0 = `start` [N,D].

    This takes one cheap operation per token. A parallel scan needs only log₂ T doublings, but each copies all values:
    on a CPU it took 4 to 16 times as long (8 to 100 tokens, width 256 and 512).
    """
    cell, cells = start, []
    for rate, value in zip(decay.unbind(1), inputs.unbind(1), strict=True):
        cell = torch.addcmul(value, rate, cell)
        cells.append(cell)
    return torch.stack(cells, dim=1)
