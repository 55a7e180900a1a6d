"""Attention of one query per hypothesis over keys and values that lie in the rows of others.

In decoding, the token that a hypothesis has at position p was read by one of its ancestors, whose row of the cache
holds its keys and values. With an index of ancestors no cache is copied when hypotheses are reordered. Likewise, all
hypotheses of a sentence attend to one row of source keys. On a GPU a single kernel does all of this.

Letters: N hypotheses, R rows of keys, H heads, G key-value heads, P positions, d head width.
"""

import torch
from torch import Tensor


def row_attention(queries: Tensor, keys: Tensor, values: Tensor, *, rows: Tensor, lengths: Tensor) -> Tensor:
    """softmax(q·k/√d) v, the attention output [N,H,d] of queries [N,H,d].

    Keys and values [R,G,P,d] are shared by H/G adjacent heads. Hypothesis n attends to the first `lengths[n]`
    positions, and finds position p in row `rows[n, p]` of the keys or, if `rows` is [N], all of them in row `rows[n]`.
    """
    if queries.is_cuda and queries.dtype != torch.float64:
        from calque.layers.kernels import attend_rows  # needs Triton

        return attend_rows(queries, keys, values, rows=rows, lengths=lengths)
    return clear_row_attention(queries, keys, values, rows=rows, lengths=lengths)


def clear_row_attention(queries: Tensor, keys: Tensor, values: Tensor, *, rows: Tensor, lengths: Tensor) -> Tensor:
    """What `row_attention` returns, with plain operations."""
    positions = torch.arange(keys.shape[2], device=keys.device)
    index = rows[:, None].expand(-1, len(positions)) if rows.dim() == 1 else rows
    shared = queries.shape[1] // keys.shape[1]
    own_keys, own_values = (
        part.transpose(1, 2)[index.long(), positions].repeat_interleave(shared, dim=2) for part in (keys, values)
    )  # [N,P,H,d]
    scores = torch.einsum("nhd,nphd->nhp", queries, own_keys) * queries.shape[2] ** -0.5
    weights = scores.masked_fill((positions >= lengths[:, None])[:, None], -torch.inf).softmax(dim=-1)
    return torch.einsum("nhp,nphd->nhd", weights, own_values)
