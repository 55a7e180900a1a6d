"""Position encodings: added vectors, rotations of queries and keys, and relative distances.

Letters: N rows, H heads, T queries, S keys, D width, d head width.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PositionsName = Literal["sinusoidal", "learned", "rotary", "relative"]


def sinusoids(size: int, *, width: int) -> Tensor:
    """The sinusoidal encodings [size,D] of positions 0 to size − 1: sines in the first half, cosines in the second.

    PE(p, j) = sin(p·10000^(−2j/D)), PE(p, D/2 + j) = cos(p·10000^(−2j/D)) (Vaswani 2017, §3.5, with the halves
    split instead of interleaved: the same vectors under a fixed permutation).
    """
    return _waves(torch.arange(size), width=width)


class Sinusoids(nn.Module):
    """Sinusoidal positions from two tables: positions below `ready`, and multiples of `ready`.

    With p = ready·i + j, sin(p r) = sin(ready·i r) cos(j r) + cos(ready·i r) sin(j r), and cos likewise. This is exact
    to float32 precision, whereas p r in float32 would lose a digit for every digit of p. The tables cover ready²
    positions, after which the encoding repeats.
    """

    fine: Tensor
    coarse: Tensor

    def __init__(self, width: int, *, ready: int = 1024) -> None:
        super().__init__()
        self.width, self.ready = width, ready
        positions = torch.arange(ready)
        self.register_buffer("fine", _waves(positions, width=width).float(), persistent=False)
        self.register_buffer("coarse", _waves(ready * positions, width=width).float(), persistent=False)

    def forward(self, positions: Tensor, *, size: int | None, like: Tensor) -> Tensor:
        """The encodings [...,D] of integer positions [...], in the data type of the tensor `like`.

        If `size` is given, the caller promises that all positions are below it, which is not checked; small sizes are
        faster.
        """
        if like.dtype == torch.float64:  # more precise than the tables
            return _waves(positions, width=self.width)
        if size is not None and size <= self.ready:
            return F.embedding(positions, self.fine).to(like.dtype)
        fine = F.embedding(positions % self.ready, self.fine)
        coarse = F.embedding(positions // self.ready % self.ready, self.coarse)
        return _add_angles(fine, coarse).to(like.dtype)

    def table(self, size: int) -> Tensor | None:
        """A table [ready,D] of the encodings of positions 0 to ready − 1; None if positions below `size` do not fit."""
        return self.fine if size <= self.ready else None


class LearnedPositions(nn.Module):
    """A learned vector for each of the first `maximum` positions (Gehring 2017, §3.1); later ones share the last."""

    def __init__(self, width: int, *, maximum: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(maximum, width))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, positions: Tensor, *, size: int | None, like: Tensor) -> Tensor:
        """The learned vectors [...,D] of integer positions [...], in the data type of the tensor `like`.

        `size` is ignored; it is there so that all position encodings are called alike.
        """
        return F.embedding(positions.clamp(max=self.weight.shape[0] - 1), self.weight).to(like.dtype)

    def table(self, size: int) -> Tensor | None:
        """The table [maximum,D] of learned vectors; positions beyond it share its last vector, whatever the `size`."""
        return self.weight


def rotate(vectors: Tensor, turn: Tensor) -> Tensor:
    """[N,H,T,d], each vector rotated by its position's angles; `turn` [N,T,d] holds their sines, then their cosines.

    Pair j of the vector at position p is rotated by p·θⱼ, θⱼ = 10000^(−2j/d) (Su 2021, eq. 14-15 and 34), to (x cos − y
    sin, y cos + x sin). A pair is (j, d/2 + j) instead of the paper's (2j, 2j + 1); the resulting models differ only in
    the order of the rows of their projections.
    """
    sines, cosines = turn[:, None].chunk(2, dim=-1)
    first, second = vectors.chunk(2, dim=-1)
    rotated = torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1)
    return rotated.to(vectors.dtype)


def distances(queries: int, *, keys: int, device: torch.device) -> Tensor:
    """[T,S], the offset of each key from each query (negative: before it); queries are the last T of S positions."""
    positions = torch.arange(keys, device=device)
    return positions - positions[keys - queries :, None]


def _add_angles(fine: Tensor, coarse: Tensor) -> Tensor:
    """The sines, then the cosines [...,D], of sums of two angles, given those of each angle (`fine` and `coarse`)."""
    (sine, cosine), (sines, cosines) = fine.chunk(2, dim=-1), coarse.chunk(2, dim=-1)
    return torch.cat([sine * cosines + cosine * sines, cosine * cosines - sine * sines], dim=-1)


def _waves(positions: Tensor, *, width: int) -> Tensor:
    """The sinusoidal encodings [...,D] of positions [...], sines before cosines, in float64; D is `width`."""
    rates = 10000 ** (-2 * torch.arange(width // 2, dtype=torch.float64, device=positions.device) / width)
    angles = positions[..., None].double() * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
