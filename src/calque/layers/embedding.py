"""Token ids to vectors. Ids outside the vocabulary, words that can only be copied, are read as unknown: here alone."""

from torch import Tensor
from torch.nn import functional as F

UNKNOWN = 3
"""The id of the unknown piece in every vocabulary (calque.text.UNK)."""


def embed(tokens: Tensor, weight: Tensor) -> Tensor:
    """[...,E] from ids [...] and vectors [V,E]."""
    return F.embedding(known(tokens, size=weight.shape[0]), weight)


def known(tokens: Tensor, *, size: int) -> Tensor:
    """The ids, those from `size` on as unknown."""
    return tokens.where(tokens < size, UNKNOWN)
