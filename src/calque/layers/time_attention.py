"""Causal self-attention over events, in which keys and values depend on how long ago an event was (Zhou et al. 2018).

Letters: B rows, T events, D width, H heads, d = D/H, N buckets.
"""

import torch
from torch import Tensor, nn

from calque.layers.dropout import dropout
from calque.layers.observers import AttentionLayer


class TimeAttention(AttentionLayer):
    """Multi-head attention of a prediction i over the events j ≤ i, with vectors for time buckets.

    In ATRank, the vector of an event is concatenated with that of its time bucket and projected. Since a projection of
    [x; t] is W x + U t, a bucket b adds a vector to the key and one to the value:

        score_ij = q_i · (k_j + K_b) / √d,   output_i = Σ_j softmax(score)_ij (v_j + V_b),   b = bucket_ij

    Buckets depend on both i and j: on the time from event j to prediction i.
    """

    def __init__(self, width: int, *, heads: int, buckets: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.head_width, self.dropout = heads, width // heads, dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.bucket_keys = nn.Parameter(torch.empty(buckets, width))
        self.bucket_values = nn.Parameter(torch.empty(buckets, width))
        for vectors in (self.bucket_keys, self.bucket_values):
            nn.init.normal_(vectors, std=width**-0.5)

    def forward(self, inputs: Tensor, buckets: Tensor) -> Tensor:
        """The attention output [B,T,D] for inputs [B,T,D] and buckets [B,T,T] of every prediction and event."""
        size = inputs.shape[1]
        queries = self._heads(self.query(inputs))  # [B,H,T,d]
        keys, values = (self._heads(part) for part in self.key_value(inputs).chunk(2, dim=-1))
        is_bucket = (buckets[..., None] == torch.arange(len(self.bucket_keys), device=buckets.device)).to(inputs.dtype)
        bucket_keys, bucket_values = (
            part.view(-1, self.heads, self.head_width).transpose(0, 1)
            for part in (self.bucket_keys, self.bucket_values)
        )  # [H,N,d]
        by_bucket = queries @ bucket_keys.transpose(1, 2)  # [B,H,T,N]
        scores = queries @ keys.transpose(2, 3) + torch.einsum("bijn,bhin->bhij", is_bucket, by_bucket)
        is_past = torch.ones(size, size, dtype=torch.bool, device=inputs.device).tril()
        scores = (scores * self.head_width**-0.5).masked_fill(~is_past, -torch.inf)
        weights = dropout(self.observed(scores.softmax(dim=-1)), self.dropout, self.training)
        attended = weights @ values + torch.einsum("bhij,bijn->bhin", weights, is_bucket) @ bucket_values
        return self.out(attended.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def _heads(self, values: Tensor) -> Tensor:
        return values.view(*values.shape[:-1], self.heads, self.head_width).transpose(1, 2)


def time_buckets(asked: Tensor, times: Tensor, *, count: int) -> Tensor:
    """[B,T,T], the bucket of the time from every event (`times` [B,T]) to every prediction (`asked` [B,T]).

    Bucket 0 holds times of 0, bucket b times from 2^(b−1) to below 2^b, and the last bucket all longer ones.
    """
    gaps = (asked[:, :, None] - times[:, None]).clamp(min=0)
    bounds = 2 ** torch.arange(count - 1, device=gaps.device)
    return torch.bucketize(gaps, bounds, right=True)
