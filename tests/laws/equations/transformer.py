"""The Transformer (Vaswani 2017)."""

import math

import torch
from torch import Tensor

from calque.models.transformer import TransformerDecoder, TransformerEncoder
from tests.laws.equations.shared import Read, dense, mean, normed, softmax


def transformer_encoder(encoder: TransformerEncoder, source: list[int]) -> list[Tensor]:
    """Vaswani 2017, §3.1: every position looks at every position."""
    stream = embed(encoder.embedding.weight, source)
    for block in encoder.blocks:
        stream = sublayer(block.around_attention, stream, lambda xs, b=block: [look(b.attention, x, xs)[0] for x in xs])
        stream = sublayer(block.around_feed_forward, stream, lambda xs, b=block: [feed(b.feed_forward, x) for x in xs])
    return last_norm(encoder, stream)


def transformer_decoder(decoder: TransformerDecoder, target: list[int], memory: list[Tensor]) -> Read:
    """Vaswani 2017, §3.1: position t looks at positions up to t, then at the memory."""
    stream, weights = embed(decoder.embedding.weight, target), []

    for block in decoder.blocks:

        def back(xs, block=block):
            return [look(block.self_attention, x, xs[: t + 1])[0] for t, x in enumerate(xs)]

        def across(xs, block=block):
            looked = [look(block.cross_attention, x, memory) for x in xs]
            weights[:] = [each for _, each in looked]
            return [found for found, _ in looked]

        stream = sublayer(block.around_self, stream, back)
        stream = sublayer(block.around_cross, stream, across)
        stream = sublayer(block.around_feed_forward, stream, lambda xs, b=block: [feed(b.feed_forward, x) for x in xs])
    return Read(torch.stack(last_norm(decoder, stream)), torch.stack(weights))


def embed(weight: Tensor, tokens: list[int]) -> list[Tensor]:
    """√D times the token's vector plus its position's, positions from 0 (§3.4, §3.5)."""
    width = weight.shape[1]
    return [math.sqrt(width) * weight[token] + sinusoid(place, width) for place, token in enumerate(tokens)]


def sinusoid(place: int, width: int) -> Tensor:
    """sin(p·10000^(−2j/D)) for j below D/2, then the cosines (§3.5, halves split)."""
    angles = [place / 10000 ** (2 * j / width) for j in range(width // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=torch.float64)


def look(attention, x: Tensor, memory: list[Tensor]) -> tuple[Tensor, Tensor]:
    """§3.2.2: Concat(head₁, …) W, head = softmax(q·k/√d) v; and the weights, their mean over heads."""
    width, heads = len(x), attention.heads
    d = width // heads
    query, key, value = attention.query, attention.key_value, attention.key_value
    found, looked = [], []
    for head in range(heads):
        mine = slice(head * d, (head + 1) * d)
        values_of = slice(width + head * d, width + (head + 1) * d)
        q = query.weight[mine] @ x + query.bias[mine]
        ks = [key.weight[mine] @ m + key.bias[mine] for m in memory]
        vs = [value.weight[values_of] @ m + value.bias[values_of] for m in memory]
        weights = softmax([q @ k / math.sqrt(d) for k in ks])
        found.append(mean(weights, vs))
        looked.append(weights)
    return dense(attention.out, torch.cat(found)), sum(looked) / heads


def sublayer(around, stream: list[Tensor], function) -> list[Tensor]:
    """post: LayerNorm(x + f(x)) (Vaswani 2017, §3.1); pre: x + f(LayerNorm(x)) (Xiong 2020)."""
    if around.place == "pre":
        return [x + y for x, y in zip(stream, function([normed(around.norm, x) for x in stream]), strict=True)]
    return [normed(around.norm, x + y) for x, y in zip(stream, function(stream), strict=True)]


def feed(layer, x: Tensor) -> Tensor:
    """Eq. 2: max(0, x W₁ + b₁) W₂ + b₂."""
    return dense(layer.leave, dense(layer.enter, x).clamp(min=0))


def last_norm(side, stream: list[Tensor]) -> list[Tensor]:
    """A pre-norm stack normalises once more at its top."""
    return [normed(side.norm, x) for x in stream] if side.blocks[0].around_feed_forward.place == "pre" else stream
