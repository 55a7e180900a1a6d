"""Key-value memory: attention whose keys and values come from different vectors (Miller et al. 2016, §3).

Letters: B rows, S slots, Q queries, K width of keys, V width of values, d width of addresses.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from calque.layers.observers import AttentionLayer


class MemorySlots(NamedTuple):
    """The slots that have been written, each with an address and a value."""

    addresses: Tensor  # [B,S,d]
    values: Tensor  # [B,S,V]
    mask: Tensor  # [B,S], false for slots that are empty


class KeyValueMemory(AttentionLayer):
    """A memory that is written with pairs of keys and values, and read by keys.

        address = A k,   weights = softmax(A q · address / √d),   read(q) = Σ weights · v

    Keys decide where to look, values what is found: unlike in self-attention, the two need not be projections of the
    same vector. Keys and queries share the matrix A, so that a query matches keys similar to it.

    Laws: writing x and then y equals writing both at once. Neither the order of slots nor empty slots affect what is
    read.
    """

    def __init__(self, key_width: int, *, address_width: int) -> None:
        super().__init__()
        self.address = nn.Linear(key_width, address_width, bias=False)
        self.scale = address_width**-0.5

    def start(self, rows: int, *, value_width: int, like: Tensor) -> MemorySlots:
        """The memory before anything is written."""
        return MemorySlots(
            like.new_zeros(rows, 0, self.address.out_features),
            like.new_zeros(rows, 0, value_width),
            torch.zeros(rows, 0, dtype=torch.bool, device=like.device),
        )

    def write(self, slots: MemorySlots, keys: Tensor, values: Tensor, *, mask: Tensor | None = None) -> MemorySlots:
        """The memory after writing keys [B,S,K] and values [B,S,V]; pairs whose `mask` [B,S] is false are ignored."""
        written = torch.ones(keys.shape[:2], dtype=torch.bool, device=keys.device) if mask is None else mask
        return MemorySlots(
            torch.cat([slots.addresses, self.address(keys)], dim=1),
            torch.cat([slots.values, values], dim=1),
            torch.cat([slots.mask, written], dim=1),
        )

    def weights(self, slots: MemorySlots, queries: Tensor) -> Tensor:
        """The attention weights [B,Q,S] of queries [B,Q,K] over the slots; all 0 if the memory is empty."""
        scores = self.address(queries) @ slots.addresses.transpose(1, 2) * self.scale
        scores = scores.masked_fill(~slots.mask[:, None], -torch.inf)
        is_empty = ~slots.mask.any(dim=1)
        scores = scores.masked_fill(is_empty[:, None, None], 0.0)  # a softmax over no slots is not a number
        weights = scores.softmax(dim=2).masked_fill(~slots.mask[:, None], 0.0)
        return self.observed(weights[:, None]).squeeze(1)

    def forward(self, slots: MemorySlots, queries: Tensor) -> Tensor:
        """The vectors [B,Q,V] that queries [B,Q,K] read; zeros if the memory is empty."""
        return self.weights(slots, queries) @ slots.values
