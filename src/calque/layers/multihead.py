"""Multi-head attention with cacheable keys and values (Vaswani 2017, §3.2).

Letters: B sentences, N rows, Q queries, S keys, T chunk, P past, D width, H heads, G key-value heads, d = D/H.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.arithmetic import arithmetic
from calque.layers.dropout import dropout
from calque.layers.observers import AttentionLayer
from calque.layers.positions import distances, rotate
from calque.layers.row_attention import attend_cached, attend_shared
from calque.layers.short_attention import fits, is_short
from calque.native.operations import attend_source, attend_steps, places_of
from calque.tensors import Slots, fold, sentence_of_rows, unfold


class KeysValues(NamedTuple):
    """Projected keys and values: of the encoder's outputs or, in self-attention, of the tokens themselves."""

    keys: Tensor  # [N,G,S,d]
    values: Tensor  # [N,G,S,d]

    def select_with_room(self, rows: Tensor) -> "KeysValues":
        """A copy of the given `rows` with room for one more token, which `append` writes without copying the others.

        `append` may be called only once: a second call would overwrite the token that the first one appended.
        """
        return KeysValues(*(_select_with_room(part, rows) for part in self))

    def append(self, new: "KeysValues") -> "KeysValues":
        """These keys and values, followed by those of T new tokens."""
        return KeysValues(*(_append(past, part) for past, part in zip(self, new, strict=True)))


class ReadTokens(NamedTuple):
    """The keys and values of the tokens that were read, one tensor per position, in the order of reading.

    When hypotheses are selected, rows are not copied: `Chunk.ancestors` says which row of each tensor a hypothesis has.
    """

    steps: tuple[Tensor, ...]  # [N',2·G·d] per position, with the N' rows that were read there
    places: Tensor  # [P,2], see `native.operations.places_of`

    @classmethod
    def none(cls) -> "ReadTokens":
        """The state before the first token."""
        return cls((), places_of(()))

    def append(self, step: Tensor) -> "ReadTokens":
        """These keys and values, followed by those of one more token."""
        return ReadTokens((*self.steps, step), torch.cat([self.places, places_of((step,))]))


class Chunk(NamedTuple):
    """T consecutive tokens that are read together: their positions, and the mask of what each may attend to."""

    places: Tensor  # [N,T]
    mask: Tensor | None  # [N,1,T,P+T]; None if there is no past, or if T is 1 and no cached token is masked
    turn: Tensor | None  # [N,T,d], the rotation of rotary positions
    past: int = 0  # P, the number of cached tokens
    ancestors: Tensor | None = None  # [N,M], for caches of fixed size: the row that has the token at each position


class MultiHead(AttentionLayer):
    """Multi-head attention; queries are projected separately from keys and values so that the latter can be cached.

    head = softmax(q·k/√d) v, Concat(head₁, …) W (§3.2.2). With fewer key-value heads than heads, H/G adjacent heads
    share keys and values (grouped queries, Ainslie 2023, §2.2; G = 1 is Shazeer's multi-query attention).
    """

    has_fixed_cache = True  # can decode with a cache of fixed size
    has_native = True

    def __init__(
        self, width: int, *, memory_width: int, heads: int, dropout: float, key_value_heads: int | None = None
    ) -> None:
        super().__init__()
        self.heads = heads
        self.key_value_heads = key_value_heads or heads
        self.head_width = width // heads
        self.dropout = dropout
        self.is_compiled = False  # set by `tune_attention`, as are the next two
        self.has_kernel = False  # for attention over short sentences
        self.joins_gradients = False  # of queries, keys and values, in that kernel
        self._joined: tuple[tuple[object, ...], tuple[Tensor, Tensor]] | None = None
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(memory_width, 2 * self.key_value_heads * self.head_width)
        self.out = nn.Linear(width, width)

    def remember(self, memory: Tensor, *, turn: Tensor | None = None) -> KeysValues:
        """Keys and values of vectors `memory` [B,S,M]; with a `turn` [B,S,d] (rotary positions), keys are rotated."""
        keys, values = (self.wide_memory(self.split_heads(part)) for part in self.key_value(memory).chunk(2, dim=-1))
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
        """The attention output [B,Q,D] for inputs [B,Q,D], from which the queries are computed.

        `mask` broadcasts to [B,H,Q,S] and is true where a query may attend; `turn` rotates the queries.
        """
        return self.project_attention(self.queries(inputs, turn=turn), memory, mask, causal=causal)

    def queries(self, inputs: Tensor, *, turn: Tensor | None = None) -> Tensor:
        """Queries [B,H,Q,d] of inputs [B,Q,D]; with a `turn` [B,Q,d] (rotary positions), they are rotated."""
        queries = self.split_heads(self.query(inputs))
        return queries if turn is None else rotate(queries, turn)

    def queries_keys_values(self, inputs: Tensor, *, turn: Tensor | None = None) -> tuple[Tensor, KeysValues]:
        """`queries` and `remember` of the same inputs, for self-attention; a compiled graph computes them together."""
        if self.is_compiled:
            return self.split_joined(self.joined(inputs), turn=turn)
        return self.queries(inputs, turn=turn), self.remember(inputs, turn=turn)

    def joined(self, inputs: Tensor) -> Tensor:
        """Queries, keys and values in one tensor [B,T,·] from a single product with the concatenated weights.

        The compiled graph concatenates the weights while it casts them.
        """
        weight = torch.cat([self.query.weight, self.key_value.weight])
        return F.linear(inputs, weight, torch.cat([self.query.bias, self.key_value.bias]))

    def split_joined(self, projected: Tensor, *, turn: Tensor | None = None) -> tuple[Tensor, KeysValues]:
        """The queries, keys and values of `joined`; with a `turn` (rotary positions), queries and keys are rotated."""
        sizes = [len(self.query.weight), *2 * [len(self.key_value.weight) // 2]]
        queries, keys, values = (self.split_heads(part) for part in torch.split(projected, sizes, dim=-1))
        if turn is not None:
            queries, keys = rotate(queries, turn), rotate(keys, turn)
        return queries, KeysValues(keys, values)

    def self_attend(
        self, inputs: Tensor, mask: Tensor | None, *, causal: bool = False, turn: Tensor | None = None
    ) -> tuple[Tensor, KeysValues]:
        """The self-attention [B,T,D] of inputs [B,T,D], and their keys and values."""
        if not self.joins_gradients or turn is not None:
            queries, memory = self.queries_keys_values(inputs, turn=turn)
            return self.project_attention(queries, memory, mask, causal=causal), memory
        projected = self.joined(inputs)
        queries, memory = self.split_joined(projected)
        if not self._uses_kernel(queries, memory, mask):
            return self.project_attention(queries, memory, mask, causal=causal), memory
        return self.out(torch.ops.calque.short_self_attention(projected, self.heads, mask, causal)), memory

    def joined_weights(self) -> tuple[Tensor, Tensor]:
        """The concatenated weights and the concatenated biases of queries, keys and values, for decoding.

        They are concatenated again when a parameter has changed; graphs captured before the change keep the old ones.
        """
        parts = (self.query.weight, self.key_value.weight, self.query.bias, self.key_value.bias)
        key = tuple((part.data_ptr(), 0 if part.is_inference() else part._version, part.dtype) for part in parts)
        if self._joined is None or self._joined[0] != key:
            with torch.no_grad():
                self._joined = (key, (torch.cat(parts[:2]), torch.cat(parts[2:])))
        return self._joined[1]

    def split_projected(self, projected: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [N,H,d], keys and values [N,G,d] of one token per row, from their joint projection [N,·]."""
        heads = projected.view(len(projected), -1, self.head_width)
        shared = self.key_value_heads
        queries, keys, values = torch.split(heads, [self.heads, shared, shared], dim=1)
        return queries, keys, values

    def project_attention(
        self, queries: Tensor, memory: KeysValues, mask: Tensor | None, *, causal: bool = False
    ) -> Tensor:
        """The attention output [B,Q,D] of queries [B,H,Q,d]: all heads, concatenated and projected."""
        heads = self.attend(queries, memory, mask, causal=causal)
        return self.out(heads.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def attend(self, queries: Tensor, memory: KeysValues, mask: Tensor | None, *, causal: bool) -> Tensor:
        """The attention output [B,H,Q,d] of each head, before the heads are concatenated and projected.

        If `in_float64` is set, keys, values and the computation are in float64; the output is in float32.
        """
        if self.in_float64:
            wide = KeysValues(*map(self.wide, memory))
            return self._plainly(self.wide(queries), wide, mask, causal=causal).to(queries.dtype)
        if self._uses_kernel(queries, memory, mask):
            return torch.ops.calque.short_attention(queries, *memory, mask, causal)  # type: ignore[no-any-return]
        if self.shows_weights or self._draws_own_masks(queries) or self._is_short(queries, memory):
            return self._plainly(queries, memory, mask, causal=causal)
        if not (causal or self.training) and _is_decoding(queries):
            keys, values = map(self._for_heads, memory)
            return self._weights(queries, keys, mask) @ values
        return F.scaled_dot_product_attention(
            queries,
            *memory,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=causal,
            enable_gqa=self.key_value_heads < self.heads,
        )

    def _plainly(self, queries: Tensor, memory: KeysValues, mask: Tensor | None, *, causal: bool) -> Tensor:
        """The output of `attend`, computed with explicit attention weights, which can be observed and changed."""
        keys, values = map(self._for_heads, memory)
        if causal:
            mask = distances(queries.shape[2], keys=keys.shape[2], device=keys.device) <= 0
        weights = self.observed(self._weights(queries, keys, mask))
        return dropout(weights, self.dropout, self.training) @ values

    def _draws_own_masks(self, queries: Tensor) -> bool:
        """Whether weights are computed explicitly so that our own `dropout` draws their mask: in training on a CPU.

        There, torch's fused attention draws its mask more slowly: forward and backward passes of 64 sentences of 32
        tokens take 1.2 times as long. Without dropout there is no difference.
        """
        is_dropping = self.training and self.dropout > 0
        return is_dropping and queries.device.type == "cpu" and not torch.compiler.is_compiling() and arithmetic() >= 2

    def _uses_kernel(self, queries: Tensor, memory: KeysValues, mask: Tensor | None) -> bool:
        """Whether the kernel `short_attention` is used: in compiled training on a GPU, without dropout on weights."""
        is_plain = self.has_kernel and self.training and not (self.shows_weights or self.dropout or self.in_float64)
        return is_plain and queries.device.type == "cuda" and fits(queries, memory.keys, mask)

    def _is_short(self, queries: Tensor, memory: KeysValues) -> bool:
        """Whether plain products beat torch's fused kernel: for short sentences in compiled training on a GPU."""
        is_graph = self.is_compiled and self.training and queries.device.type == "cuda"
        return is_graph and is_short(queries, memory.keys)

    def weights(self, queries: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        """[B,Q,S], the attention weights of queries [B,H,Q,d], averaged over heads and without dropout."""
        weights = self._weights(self.wide(queries), self._for_heads(self.wide(keys)), mask).to(queries.dtype)
        return self.changed(weights).mean(dim=1)

    def _weights(self, queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
        """The attention weights softmax(q·k/√d) of each head, [B,H,Q,S]: of Q queries over S keys."""
        scores = queries @ keys.transpose(2, 3) * self.head_width**-0.5
        weights: Tensor = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(dim=-1)
        return weights

    def start(self, rows: int, *, like: Tensor) -> KeysValues:
        """The empty cache of keys and values before the first token, for `rows` hypotheses."""
        empty = self.wide_memory(like.new_zeros(rows, self.key_value_heads, 0, self.head_width))
        return KeysValues(empty, empty)

    def attend_prefix(self, queries: Tensor, memory: KeysValues, mask: Tensor, *, slots: Slots | None = None) -> Tensor:
        """The concatenated outputs of all heads [N,T,D] for projected queries [N,T,D], before the output projection.

        The rows of a sentence attend to the keys of that sentence where `mask` [B,S] is true. In each row of the mask,
        all true positions must come first.
        """
        rows, size, _ = queries.shape
        if not self.computes_natively(queries):
            heads = self.split_heads(fold(queries, sentences=len(mask), slots=slots))
            attended = self.attend(heads, memory, mask[:, None, None], causal=False)
            return unfold(attended.transpose(1, 2).flatten(2), rows=rows, slots=slots)
        attended = attend_source(
            queries.reshape(rows * size, self.heads, -1),
            *memory,
            sentences=sentence_of_rows(rows, size=size, sentences=len(mask), slots=slots),
            lengths=mask.sum(dim=1),
            scale=self.head_width**-0.5,
        )
        return attended.view(rows, size, -1)

    def read(self, inputs: Tensor, past: KeysValues, chunk: Chunk) -> tuple[Tensor, KeysValues]:
        """Causal self-attention [N,T,D] of T new tokens over the cached tokens and themselves, and the extended cache.

        With rotary positions, keys are cached after rotation.
        """
        if not chunk.past and chunk.ancestors is None:
            return self.self_attend(inputs, chunk.mask, causal=True, turn=chunk.turn)
        queries, keys_values = self.queries_keys_values(inputs, turn=chunk.turn)
        if chunk.ancestors is not None:
            return self._read_fixed(queries, keys_values, past, chunk), past
        keys_values = past.append(keys_values)
        return self.project_attention(queries, keys_values, chunk.mask), keys_values

    def read_token(self, inputs: Tensor, past: ReadTokens, chunk: Chunk) -> tuple[Tensor, ReadTokens]:
        """`read` for one token per row, with kernels for decoding on a CPU; the output [N,1,D] is not yet projected."""
        assert chunk.ancestors is not None
        after = past.append(self.key_value(inputs).squeeze(1))
        queries = self.query(inputs).squeeze(1)
        heads = attend_steps(queries, *after, ancestors=chunk.ancestors, heads=self.heads, groups=self.key_value_heads)
        return heads[:, None], after

    def _read_fixed(self, queries: Tensor, new: KeysValues, cache: KeysValues, chunk: Chunk) -> Tensor:
        """The self-attention [N,1,D] of one new token per row; its keys and values are written into the `cache`."""
        assert chunk.ancestors is not None
        added = KeysValues(new.keys.squeeze(2), new.values.squeeze(2))
        heads = attend_cached(queries.squeeze(2), added, cache, ancestors=chunk.ancestors, position=chunk.places[:, 0])
        return self.out(heads.flatten(1)[:, None])  # type: ignore[no-any-return]

    def attend_shared(self, inputs: Tensor, memory: KeysValues, *, lengths: Tensor) -> Tensor:
        """The attention output [N,1,D] of one token per hypothesis, where adjacent hypotheses share a row of memory."""
        heads = attend_shared(self.queries(inputs).squeeze(2), *memory, lengths=lengths)
        return self.out(heads.flatten(1)[:, None])  # type: ignore[no-any-return]

    def split_heads(self, rows: Tensor) -> Tensor:
        """The rows [N,T,D], split into [N,H,T,d]: one vector per head."""
        return rows.view(*rows.shape[:2], -1, self.head_width).transpose(1, 2)

    def _for_heads(self, grouped: Tensor) -> Tensor:
        """Keys or values [N,H,S,d] for all H heads: each key-value head is repeated for every head that shares it."""
        shared = self.heads // self.key_value_heads
        return grouped if shared == 1 else grouped.repeat_interleave(shared, dim=1)


def _select_with_room(past: Tensor, rows: Tensor) -> Tensor:
    size = past.shape[2]
    roomy = past.new_empty(len(rows), past.shape[1], size + 1, past.shape[3])[:, :, :size]
    return torch.index_select(past, 0, rows, out=roomy)


def _append(past: Tensor, new: Tensor) -> Tensor:
    rows, heads, size, width = past.shape
    if new.shape[2] > 1 or past.stride() != (heads * (size + 1) * width, (size + 1) * width, width, 1):
        return torch.cat([past, new], dim=2)
    grown = past.as_strided((rows, heads, size + 1, width), past.stride())
    grown[:, :, size:] = new
    return grown


def _is_decoding(queries: Tensor) -> bool:
    """Whether queries [B,H,Q,d] are so few that plain products beat the fused kernel: in decoding on a CPU.

    For one query over 12 keys in each of 1,250 rows, plain products take 2.8 ms and the fused kernel 6.2 ms.
    """
    return queries.shape[2] < 16 and queries.device.type == "cpu" and not torch.is_grad_enabled()


class RelativeMultiHead(MultiHead):
    """Self-attention with relative positions (Shaw 2018, §3.2).

    e_ij = q_i·(k_j + a^K_ij)/√d (eq. 4), z_i = Σ_j α_ij (v_j + a^V_ij) (eq. 3), a_ij = w[clip(j − i, −reach, reach)]
    (eq. 5 and after). Each layer has its own two tables, shared by its heads (§3.3).
    """

    has_fixed_cache = False
    has_native = False

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
        dtype, queries = queries.dtype, self.wide(queries)
        keys, values = map(self._for_heads, memory)
        offsets = distances(queries.shape[2], keys=keys.shape[2], device=keys.device)  # [Q,S]
        index = offsets.clamp(-self.reach, self.reach) + self.reach
        key_distances = self.wide(self.key_distances)[index]
        scores = queries @ keys.transpose(2, 3) + torch.einsum("nhqd,qsd->nhqs", queries, key_distances)
        if causal:
            mask = offsets <= 0
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = self.observed((scores * self.head_width**-0.5).softmax(dim=-1))
        weights = dropout(weights, self.dropout, self.training)
        value_distances = self.wide(self.value_distances)[index]
        return (weights @ values + torch.einsum("nhqs,qsd->nhqd", weights, value_distances)).to(dtype)
