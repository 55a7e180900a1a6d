"""Attention with time buckets against its equations written out, and the buckets themselves."""

import math

import torch
from torch.testing import assert_close

from calque.layers.time_attention import TimeAttention, time_buckets

WIDTH, HEADS, BUCKETS = 6, 2, 5


def test_buckets_double() -> None:
    gaps = [0, 1, 2, 3, 4, 7, 8, 1 << 40]
    times = torch.zeros(1, len(gaps), dtype=torch.long)
    asked = torch.tensor([gaps])
    assert time_buckets(asked, times, count=6)[0, :, 0].tolist() == [0, 1, 2, 2, 3, 3, 4, 5]
    assert time_buckets(times, asked, count=6).max() == 0  # an event after the prediction, which causality masks


@torch.no_grad()
def test_attention_is_the_papers_with_the_projection_factored() -> None:
    """ATRank projects an event's vector, concatenated with that of its bucket: [W; U] [x; t] = W x + U t."""
    torch.manual_seed(0)
    layer = TimeAttention(WIDTH, heads=HEADS, buckets=BUCKETS, dropout=0.0).double()
    inputs, buckets = torch.randn(2, 4, WIDTH).double(), torch.randint(0, BUCKETS, (2, 4, 4))
    read, size = layer(inputs, buckets), WIDTH // HEADS
    key_weight, value_weight = layer.key_value.weight.chunk(2)
    key_bias, value_bias = layer.key_value.bias.chunk(2)
    for row in range(2):
        for place in range(4):
            query = layer.query(inputs[row, place])
            heads = []
            for head in range(HEADS):
                part = slice(head * size, (head + 1) * size)
                keys, values = [], []
                for event in range(place + 1):
                    both = torch.cat([inputs[row, event], torch.eye(BUCKETS).double()[buckets[row, place, event]]])
                    keys.append((torch.cat([key_weight, layer.bucket_keys.T], dim=1) @ both + key_bias)[part])
                    values.append((torch.cat([value_weight, layer.bucket_values.T], dim=1) @ both + value_bias)[part])
                scores = torch.stack([query[part] @ key / math.sqrt(size) for key in keys])
                heads.append((scores.softmax(dim=0)[:, None] * torch.stack(values)).sum(dim=0))
            assert_close(read[row, place], layer.out(torch.cat(heads)), rtol=1e-9, atol=1e-12)
