"""Attention of one new token per hypothesis in decoding, over caches of fixed size.

A hypothesis writes the keys and values of its new token into its own row of the cache; those of its earlier tokens may
lie in the rows of its ancestors in the beam. The index `ancestors` gives the row of each token, so caches need not be
copied when hypotheses are reordered. On a GPU, each function is one kernel.

Letters: N hypotheses, B sentences, H heads, G key-value heads, P positions, S source, d head width. Keys and values are
shared by H/G adjacent heads.
"""

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]  # keys and values


def attend_cached(queries: Tensor, new: Pair, cache: Pair, *, ancestors: Tensor, position: Tensor) -> Tensor:
    """softmax(q·k/√d) v, the self-attention [N,H,d] of queries [N,H,d] over all tokens of a hypothesis.

    The `new` keys and values [N,G,d] of the last token are written into the `cache` [N,G,P,d] at `position` [N], which
    is the same for all hypotheses. For the token of hypothesis n at position p, the index `ancestors` [N,P] gives the
    row of the cache; it is updated for the new token too.
    """
    if queries.is_cuda and queries.dtype != torch.float64:
        from calque.layers.row_attention_kernel import attend_cached as fast  # needs Triton

        return fast(queries, new, cache, ancestors=ancestors, position=position)
    for part, added in zip(cache, new, strict=True):
        part.index_copy_(2, position[:1], added[:, :, None])
    rows = torch.arange(len(queries), dtype=ancestors.dtype, device=queries.device)
    ancestors.index_copy_(1, position[:1], rows[:, None])
    places = torch.arange(ancestors.shape[1], device=queries.device)
    keys, values = (part.transpose(1, 2)[ancestors.long(), places] for part in cache)  # [N,P,G,d]
    return _attend(queries, keys.transpose(1, 2), values.transpose(1, 2), lengths=position + 1)


def attend_shared(queries: Tensor, keys: Tensor, values: Tensor, *, lengths: Tensor) -> Tensor:
    """softmax(q·k/√d) v, the cross-attention [N,H,d] of queries [N,H,d] over the keys and values [B,G,S,d] of a source.

    N/B adjacent hypotheses share a sentence and attend to its first `lengths` [B] keys.
    """
    if queries.is_cuda and queries.dtype != torch.float64:
        from calque.layers.row_attention_kernel import attend_shared as fast  # needs Triton

        return fast(queries, keys, values, lengths=lengths)
    rows = torch.arange(len(queries), device=queries.device) // (len(queries) // len(keys))
    return _attend(queries, keys[rows], values[rows], lengths=lengths[rows])


def _attend(queries: Tensor, keys: Tensor, values: Tensor, *, lengths: Tensor) -> Tensor:
    """The attention [N,H,d] of queries [N,H,d] over the first `lengths` [N] of P keys and values, [N,G,P,d] each."""
    shared = queries.shape[1] // keys.shape[1]
    keys, values = (part.repeat_interleave(shared, dim=1) for part in (keys, values))
    scores = (keys @ queries[..., None]).squeeze(3) * queries.shape[2] ** -0.5  # [N,H,P]
    is_beyond = torch.arange(keys.shape[2], device=keys.device) >= lengths[:, None]
    weights = scores.masked_fill(is_beyond[:, None], -torch.inf).softmax(dim=-1)
    attended: Tensor = weights[:, :, None] @ values
    return attended.squeeze(2)
