"""Attention of many heads (Vaswani 2017, §3.2), whose keys can be kept.

Letters: B sentences, N rows, Q queries, S keys, T chunk, P past, D width, H heads, G key-value heads, d = D/H.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.positions import distances, rotate


class KeysValues(NamedTuple):
    """What attention looks at."""

    keys: Tensor  # [N,G,S,d]
    values: Tensor  # [N,G,S,d]


class Chunk(NamedTuple):
    """Where the T tokens of a chunk stand, and what each of them may look at."""

    places: Tensor  # [N,T]
    mask: Tensor | None  # [N,1,T,P+T]; None where nothing is kept: causality alone hides what is to come
    turn: Tensor | None  # [N,T,d], of rotary positions


class MultiHead(nn.Module):
    """Multi-head attention; queries, keys and values are projected apart so that keys can be kept.

    head = softmax(q·k/√d) v, Concat(head₁, …) W (§3.2.2). With fewer key-value heads than heads, H/G neighbouring
    heads look at the same keys and values (grouped queries, Ainslie 2023, §2.2; G = 1 is Shazeer's multi-query).
    """

    def __init__(
        self, width: int, *, memory_width: int, heads: int, dropout: float, key_value_heads: int | None = None
    ) -> None:
        super().__init__()
        self.heads = heads
        self.key_value_heads = key_value_heads or heads
        self.head_width = width // heads
        self.dropout = dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(memory_width, 2 * self.key_value_heads * self.head_width)
        self.out = nn.Linear(width, width)

    def remember(self, memory: Tensor, *, turn: Tensor | None = None) -> KeysValues:
        """Keys and values of [B,S,M]; with a `turn` [B,S,d] the keys are rotated."""
        keys, values = (self._split(part) for part in self.key_value(memory).chunk(2, dim=-1))
        return KeysValues(keys if turn is None else rotate(keys, turn), values)

    def forward(
        self,
        inputs: Tensor,
        memory: KeysValues,
        mask: Tensor | None,
        *,
        causal: bool = False,
        turn: Tensor | None = None,
    ) -> Tensor:
        """[B,Q,D] from [B,Q,D]; `mask` broadcasts to [B,H,Q,S] and is true where a query may look."""
        return self.find(self.queries(inputs, turn=turn), memory, mask, causal=causal)

    def queries(self, inputs: Tensor, *, turn: Tensor | None = None) -> Tensor:
        """[B,H,Q,d] of [B,Q,D]; with a `turn` [B,Q,d] they are rotated."""
        queries = self._split(self.query(inputs))
        return queries if turn is None else rotate(queries, turn)

    def find(self, queries: Tensor, memory: KeysValues, mask: Tensor | None, *, causal: bool = False) -> Tensor:
        """[B,Q,D], what queries [B,H,Q,d] find."""
        found = self.attend(queries, memory, mask, causal=causal)
        return self.out(found.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def attend(self, queries: Tensor, memory: KeysValues, mask: Tensor | None, *, causal: bool) -> Tensor:
        """[B,H,Q,d], what each head finds."""
        return F.scaled_dot_product_attention(
            queries,
            *memory,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=causal,
            enable_gqa=self.key_value_heads < self.heads,
        )

    def weights(self, queries: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        """[B,Q,S], where queries [B,H,Q,d] look: softmax(q·k/√d), the mean over heads; never dropped out."""
        scores = queries @ self._for_heads(keys).transpose(2, 3) * self.head_width**-0.5
        weights: Tensor = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        return weights.mean(dim=1)

    def start(self, rows: int, *, like: Tensor) -> KeysValues:
        """The past before any token."""
        empty = like.new_zeros(rows, self.key_value_heads, 0, self.head_width)
        return KeysValues(empty, empty)

    def read(self, inputs: Tensor, past: KeysValues, chunk: Chunk) -> tuple[Tensor, KeysValues]:
        """Self-attention [N,T,D] of a chunk over the past and over itself up to each token; the past with the chunk.

        Keys are kept as they were rotated, at their own positions.
        """
        kept = self.remember(inputs, turn=chunk.turn)
        if chunk.mask is not None:
            kept = KeysValues(torch.cat([past.keys, kept.keys], dim=2), torch.cat([past.values, kept.values], dim=2))
        return self(inputs, kept, chunk.mask, causal=chunk.mask is None, turn=chunk.turn), kept

    def _split(self, rows: Tensor) -> Tensor:
        return rows.view(*rows.shape[:2], -1, self.head_width).transpose(1, 2)

    def _for_heads(self, grouped: Tensor) -> Tensor:
        """[N,H,S,d], each of the G key-value heads once for every head that looks at it."""
        shared = self.heads // self.key_value_heads
        return grouped if shared == 1 else grouped.repeat_interleave(shared, dim=1)


class RelativeMultiHead(MultiHead):
    """Self-attention that knows how far apart query and key stand (Shaw 2018, §3.2).

    e_ij = q_i·(k_j + a^K_ij)/√d (eq. 4), z_i = Σ_j α_ij (v_j + a^V_ij) (eq. 3), a_ij = w[clip(j − i, −reach, reach)]
    (eq. 5 and after). Each layer has its two tables, shared by its heads (§3.3).
    """

    def __init__(
        self, width: int, *, heads: int, dropout: float, reach: int, key_value_heads: int | None = None
    ) -> None:
        super().__init__(width, memory_width=width, heads=heads, dropout=dropout, key_value_heads=key_value_heads)
        self.reach = reach
        self.key_distances = nn.Parameter(torch.empty(2 * reach + 1, self.head_width))
        self.value_distances = nn.Parameter(torch.empty(2 * reach + 1, self.head_width))
        nn.init.xavier_uniform_(self.key_distances)
        nn.init.xavier_uniform_(self.value_distances)

    def attend(self, queries: Tensor, memory: KeysValues, mask: Tensor | None, *, causal: bool) -> Tensor:
        keys, values = map(self._for_heads, memory)
        apart = distances(queries.shape[2], keys=keys.shape[2], device=keys.device)  # [Q,S]
        index = apart.clamp(-self.reach, self.reach) + self.reach
        scores = queries @ keys.transpose(2, 3) + torch.einsum("nhqd,qsd->nhqs", queries, self.key_distances[index])
        if causal:
            mask = apart <= 0
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = (scores * self.head_width**-0.5).softmax(dim=-1)
        weights = F.dropout(weights, self.dropout, self.training)
        return weights @ values + torch.einsum("nhqs,qsd->nhqd", weights, self.value_distances[index])
