"""The Transformer (Vaswani 2017) and its variants, distinguished by the types of a model's parts."""

import math

import torch
from torch import Tensor

from calque.layers.feed_forward import GELUFeedForward, SwiGLUFeedForward
from calque.layers.mixers import SSRU, AverageAttention
from calque.layers.multihead import RelativeMultiHead
from calque.layers.positions import LearnedPositions, Sinusoids
from calque.models.transformer import TransformerDecoder, TransformerEncoder
from tests.laws.equations.shared import DecoderOutput, dense, mean, normed, softmax


def transformer_encoder(encoder: TransformerEncoder, source: list[int]) -> list[Tensor]:
    """Vaswani 2017, §3.1: every position attends to every position."""
    stream = embed(encoder.embedding, source)
    for block in encoder.blocks:

        def around(xs, attention=block.attention):
            return [
                self_attend(attention, xs, i, upto=len(xs), rotary=encoder.rotary is not None) for i in range(len(xs))
            ]

        stream = sublayer(block.around_attention, stream, around)
        stream = sublayer(block.around_feed_forward, stream, lambda xs, b=block: [feed(b.feed_forward, x) for x in xs])
    return last_norm(encoder, stream)


def transformer_decoder(decoder: TransformerDecoder, target: list[int], memory: list[Tensor]) -> DecoderOutput:
    """Vaswani 2017, §3.1: position t attends to positions up to t, then to the memory."""
    inputs = embed(decoder.embedding, target)
    stream, weights, contexts = inputs, [], []

    for number, block in enumerate(decoder.blocks):

        def back(xs, mixer=block.self_attention):
            match mixer:
                case SSRU():
                    return ssru(mixer, xs)
                case AverageAttention():
                    return average(mixer, xs)
            rotary = decoder.rotary is not None
            return [self_attend(mixer, xs, i, upto=i + 1, rotary=rotary) for i in range(len(xs))]

        def across(xs, block=block, shown=number == decoder.shown):
            attended = [attend(block.cross_attention, x, memory) for x in xs]
            if shown:
                contexts[:], weights[:] = zip(*attended, strict=True)
            return [context for context, _ in attended]

        stream = sublayer(block.around_self, stream, back)
        stream = sublayer(block.around_cross, stream, across)
        stream = sublayer(block.around_feed_forward, stream, lambda xs, b=block: [feed(b.feed_forward, x) for x in xs])
    hidden = last_norm(decoder, stream)
    gate = None if decoder.copy_gate is None else copy_gate(decoder.copy_gate, contexts, hidden, inputs)
    return DecoderOutput(torch.stack(hidden), torch.stack(weights), gate)


def embed(embedding, tokens: list[int]) -> list[Tensor]:
    """√D times the token's vector plus its position's, positions from 0 (§3.4, §3.5)."""
    width = embedding.weight.shape[1]
    vectors = [math.sqrt(width) * embedding.weight[token] for token in tokens]
    match embedding.positions:
        case Sinusoids():
            return [vector + sinusoid(position, width) for position, vector in enumerate(vectors)]
        case LearnedPositions():
            table = embedding.positions.weight
            return [vector + table[min(position, len(table) - 1)] for position, vector in enumerate(vectors)]
    return vectors


def sinusoid(position: int, width: int) -> Tensor:
    """sin(p·10000^(−2j/D)) for j below D/2, then the cosines (§3.5, halves split)."""
    angles = [position / 10000 ** (2 * j / width) for j in range(width // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=torch.float64)


def rotated(vector: Tensor, position: int) -> Tensor:
    """Su 2021, eq. 13-15: pair j rotated by the angle p·10000^(−2j/d); the pairs are (j, d/2 + j)."""
    half = len(vector) // 2
    vector_rotated = [None] * len(vector)
    for j in range(half):
        angle = position * 10000 ** (-2 * j / len(vector))
        matrix = torch.tensor(
            [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=torch.float64
        )
        vector_rotated[j], vector_rotated[half + j] = matrix @ torch.stack([vector[j], vector[half + j]])
    return torch.stack(vector_rotated)


def parts_of(attention, head: int) -> tuple[slice, slice, slice]:
    """The rows of the query matrix and of the key-value matrix for a head; adjacent heads may share keys."""
    d = attention.query.weight.shape[0] // attention.heads
    groups = attention.key_value.weight.shape[0] // (2 * d)
    group = head // (attention.heads // groups)
    keys, values = group * d, (groups + group) * d
    return slice(head * d, (head + 1) * d), slice(keys, keys + d), slice(values, values + d)


def rows(layer, part: slice, x: Tensor) -> Tensor:
    return layer.weight[part] @ x + layer.bias[part]


def attend(attention, x: Tensor, memory: list[Tensor]) -> tuple[Tensor, Tensor]:
    """§3.2.2: Concat(head₁, …) W, head = softmax(q·k/√d) v; and the weights, averaged over heads."""
    heads, head_weights = [], []
    for head in range(attention.heads):
        query_rows, keys, values = parts_of(attention, head)
        q = rows(attention.query, query_rows, x)
        ks = [rows(attention.key_value, keys, m) for m in memory]
        weights = softmax([q @ k / math.sqrt(len(q)) for k in ks])
        heads.append(mean(weights, [rows(attention.key_value, values, m) for m in memory]))
        head_weights.append(weights)
    return dense(attention.out, torch.cat(heads)), sum(head_weights) / attention.heads


def self_attend(attention, xs: list[Tensor], i: int, *, upto: int, rotary: bool) -> Tensor:
    """Self-attention of position i to the first `upto` positions, with the terms of Su 2021 and Shaw 2018 (eq. 3-5)."""
    heads = []
    for head in range(attention.heads):
        query_rows, keys, values = parts_of(attention, head)
        q = rows(attention.query, query_rows, xs[i])
        q = rotated(q, i) if rotary else q
        scores, vs = [], []
        for j in range(upto):
            k, v = rows(attention.key_value, keys, xs[j]), rows(attention.key_value, values, xs[j])
            k = rotated(k, j) if rotary else k
            if isinstance(attention, RelativeMultiHead):
                reach = len(attention.key_distances) // 2
                clipped = max(-reach, min(reach, j - i))
                k, v = k + attention.key_distances[clipped + reach], v + attention.value_distances[clipped + reach]
            scores.append(q @ k / math.sqrt(len(q)))
            vs.append(v)
        heads.append(mean(softmax(scores), vs))
    return dense(attention.out, torch.cat(heads))


def ssru(layer, xs: list[Tensor]) -> list[Tensor]:
    """Kim 2019, §3.1."""
    cell, outputs = torch.zeros_like(xs[0]), []
    for x in xs:
        forget = logistic(dense(layer.forget, x))
        cell = forget * cell + (1 - forget) * (layer.candidate.weight @ x)
        outputs.append(cell.clamp(min=0))
    return outputs


def average(layer, ys: list[Tensor]) -> list[Tensor]:
    """Zhang, Xiong and Su 2018, §3.1."""
    outputs = []
    for j, y in enumerate(ys, start=1):
        g = feed(layer.feed_forward, sum(ys[:j]) / j)
        gates = logistic(layer.gates.weight @ torch.cat([y, g]))
        outputs.append(gates[: len(y)] * y + gates[len(y) :] * g)
    return outputs


def copy_gate(gate, contexts: list[Tensor], hidden: list[Tensor], inputs: list[Tensor]) -> Tensor:
    """See 2017, eq. 8: σ(w_c·c + w_s·s + w_x·x + b)."""
    w_c, w_s, w_x = gate.dense.weight[0].chunk(3)
    vectors = zip(contexts, hidden, inputs, strict=True)
    return torch.stack([w_c @ c + w_s @ s + w_x @ x + gate.dense.bias[0] for c, s, x in vectors])


def sublayer(around, stream: list[Tensor], function) -> list[Tensor]:
    """post: LayerNorm(x + f(x)) (Vaswani 2017, §3.1); pre: x + f(LayerNorm(x)) (Xiong 2020)."""
    if around.place == "pre":
        return [x + y for x, y in zip(stream, function([normed(around.norm, x) for x in stream]), strict=True)]
    return [normed(around.norm, x + y) for x, y in zip(stream, function(stream), strict=True)]


def feed(layer, x: Tensor) -> Tensor:
    """Eq. 2: max(0, x W₁ + b₁) W₂ + b₂, or GELU for max (Hendrycks 2016), or Swish(x W) ⊗ x V (Shazeer 2020)."""
    inside = dense(layer.enter, x)
    match layer:
        case GELUFeedForward():
            inside = torch.stack([unit * (1 + math.erf(float(unit) / math.sqrt(2))) / 2 for unit in inside])
        case SwiGLUFeedForward():
            inside = inside * logistic(inside) * dense(layer.scale, x)
        case _:
            inside = inside.clamp(min=0)
    return dense(layer.leave, inside)


def logistic(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def last_norm(side, stream: list[Tensor]) -> list[Tensor]:
    """The final normalisation of a pre-norm stack."""
    return [normed(side.norm, x) for x in stream] if side.blocks[0].around_feed_forward.place == "pre" else stream
