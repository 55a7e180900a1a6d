"""Multi-head attention and Transformer blocks: reported weights are those used, dropout, norms."""

import pytest
import torch
from tests.laws.models import loud
from torch import Tensor

from calque.layers.feed_forward import FeedForward
from calque.layers.multihead import MultiHead
from calque.layers.transformer import BlockShape, Dropouts, EncoderBlock, Residual

SENTENCES, QUERIES, SOURCE, WIDTH, MEMORY, HEADS = 2, 5, 7, 6, 8, 3


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@torch.no_grad()
def test_weights_are_those_that_forward_uses() -> None:
    """With one head, an identity for `out` and one-hot positions as values, attention returns its weights."""
    attention = loud(MultiHead(SOURCE, memory_width=MEMORY, heads=1, dropout=0.0))
    attention.out.weight.copy_(torch.eye(SOURCE))
    attention.out.bias.zero_()
    inputs, memory = random(SENTENCES, QUERIES, SOURCE), attention.remember(random(SENTENCES, SOURCE, MEMORY))
    one_hot = torch.eye(SOURCE, dtype=torch.float64).expand(SENTENCES, 1, -1, -1)
    mask = torch.tensor([[True] * SOURCE, [True] * 2 + [False] * (SOURCE - 2)])[:, None, None]
    outputs = attention(inputs, memory._replace(values=one_hot), mask)
    torch.testing.assert_close(
        attention.weights(attention.queries(inputs), memory.keys, mask), outputs, rtol=0, atol=1e-12
    )


@torch.no_grad()
def test_weights_are_the_mean_over_heads() -> None:
    attention = loud(MultiHead(WIDTH, memory_width=MEMORY, heads=HEADS, dropout=0.0))
    inputs, memory = random(SENTENCES, QUERIES, WIDTH), attention.remember(random(SENTENCES, SOURCE, MEMORY))
    queries = attention.query(inputs).unflatten(-1, (HEADS, -1))
    heads = [
        (queries[:, :, head] @ memory.keys[:, head].transpose(1, 2) / (WIDTH // HEADS) ** 0.5).softmax(-1)
        for head in range(HEADS)
    ]
    mask = torch.ones(SENTENCES, 1, 1, SOURCE, dtype=torch.bool)
    weights = attention.weights(attention.queries(inputs), memory.keys, mask)
    torch.testing.assert_close(weights, sum(heads) / HEADS, rtol=0, atol=1e-12)


@torch.no_grad()
def test_causal_attention_equals_a_triangular_mask() -> None:
    attention = loud(MultiHead(WIDTH, memory_width=WIDTH, heads=HEADS, dropout=0.0))
    inputs = random(SENTENCES, QUERIES, WIDTH)
    memory = attention.remember(inputs)
    triangle = torch.ones(QUERIES, QUERIES, dtype=torch.bool).tril()
    causal = attention(inputs, memory, None, causal=True)
    torch.testing.assert_close(causal, attention(inputs, memory, triangle), rtol=0, atol=1e-12)


@torch.no_grad()
def test_each_dropout_is_active_in_training_only() -> None:
    inputs, mask = random(SENTENCES, SOURCE, WIDTH), torch.ones(SENTENCES, 1, 1, SOURCE, dtype=torch.bool)
    for place in Dropouts._fields:
        dropouts = Dropouts(0.0, 0.0, 0.0)._replace(**{place: 0.5})
        block = loud(EncoderBlock(BlockShape(WIDTH, HEADS, inner=9, dropouts=dropouts)))
        expected = block(inputs, mask)
        assert torch.equal(block(inputs, mask), expected)
        assert not torch.allclose(block.train()(inputs, mask), expected), place


@torch.no_grad()
def test_norm_is_before_the_sublayer_or_after_the_sum() -> None:
    stream, output = random(SENTENCES, SOURCE, WIDTH), random(SENTENCES, SOURCE, WIDTH)
    shape = BlockShape(WIDTH, HEADS, inner=9, dropouts=Dropouts(0.0, 0.0, 0.0))
    pre, post = (loud(Residual(shape._replace(place=place))) for place in ("pre", "post"))
    assert torch.equal(pre.enter(stream), pre.norm(stream))
    assert torch.equal(pre.leave(stream, output), stream + output)
    assert torch.equal(post.enter(stream), stream)
    assert torch.equal(post.leave(stream, output), post.norm(stream + output))


@torch.no_grad()
def test_feed_forward_is_applied_to_each_position_separately() -> None:
    feed_forward = loud(FeedForward(WIDTH, inner=9, dropout=0.0))
    inputs = random(SENTENCES, SOURCE, WIDTH)
    separately = torch.stack([feed_forward(inputs[:, position]) for position in range(SOURCE)], dim=1)
    torch.testing.assert_close(feed_forward(inputs), separately, rtol=0, atol=1e-12)


@pytest.mark.parametrize("grouped", [None, 2])
@pytest.mark.parametrize("is_turned", [True, False])
def test_joined_products_are_the_products(grouped: int | None, is_turned: bool) -> None:
    layer = loud(MultiHead(16, memory_width=16, heads=4, dropout=0.0, key_value_heads=grouped)).double()
    inputs, turn = random(SENTENCES, QUERIES, 16), random(1, QUERIES, 4) if is_turned else None
    queries, memory = layer.queries_keys_values(inputs, turn=turn)
    layer.is_compiled = True
    joined_queries, joined_memory = layer.queries_keys_values(inputs, turn=turn)
    torch.testing.assert_close(joined_queries, queries)
    torch.testing.assert_close(tuple(joined_memory), tuple(memory))
