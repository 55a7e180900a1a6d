"""Where a token stands, as a vector. Letters: D width."""

import torch
from torch import Tensor, nn


def sinusoids(size: int, *, width: int) -> Tensor:
    """[size,D] of positions 0 to size − 1: sines in the first half, cosines in the second.

    PE(p, j) = sin(p·10000^(−2j/D)), PE(p, D/2 + j) = cos(p·10000^(−2j/D)) (Vaswani 2017, §3.5, with the halves
    split instead of interleaved: the same vectors under a fixed permutation).
    """
    rates = 10000 ** (-2 * torch.arange(width // 2, dtype=torch.float64) / width)
    angles = torch.arange(size, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Sinusoids(nn.Module):
    """Sinusoidal positions, from a table that is as long as asked for."""

    table: Tensor

    def __init__(self, width: int, *, ready: int = 512) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("table", sinusoids(ready, width=width).float(), persistent=False)

    def forward(self, positions: Tensor, *, size: int, like: Tensor) -> Tensor:
        """[...,D] for integer positions, all of them below `size`, in the type of `like`."""
        if size <= self.table.shape[0] and like.dtype != torch.float64:
            table = self.table
        else:  # past the table, or where its precision is not enough
            table = sinusoids(size, width=self.width).to(like.dtype).to(self.table.device)
        return nn.functional.embedding(positions, table).to(like.dtype)
