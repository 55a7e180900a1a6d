"""Maps token ids to vectors. Ids outside the vocabulary (words that can only be copied) are read as the unknown piece.

Models can therefore pass on such ids as they are.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

UNKNOWN = 3
"""The id of the unknown piece in every vocabulary (calque.text.UNK)."""


def embed(tokens: Tensor, weight: Tensor) -> Tensor:
    """The vectors [...,E] of token ids [...], looked up in the embedding matrix `weight` [V,E]."""
    return F.embedding(known(tokens, size=weight.shape[0]), weight)


def embed_at(tokens: Tensor, weight: Tensor, *, positions: Tensor, table: Tensor) -> Tensor:
    """√D times the vectors [N,D] of tokens [N], plus the rows `positions` [N] of a table of position vectors [·,D].

    Positions beyond the table use its last row. On a GPU this is one kernel.
    """
    if weight.is_cuda and weight.dtype != torch.float64:
        from calque.layers.embedding_kernel import embed_at as fast  # needs Triton

        return fast(tokens, weight, positions=positions, table=table, unknown=UNKNOWN)
    scaled: Tensor = embed(tokens, weight) * weight.shape[1] ** 0.5
    return scaled + F.embedding(positions.clamp(max=len(table) - 1), table).to(scaled.dtype)


def known(tokens: Tensor, *, size: int) -> Tensor:
    """The token ids, with every id outside the vocabulary (`size` or above) replaced by the id of the unknown piece.

    `torch.where` with a Python number would copy it to the device, and the host would wait for the copy.
    """
    return tokens.masked_fill(tokens >= size, UNKNOWN)
