"""ConvS2S (Gehring 2017), and the bag-of-words encoder."""

import math

import torch
from torch import Tensor

from calque.models.bag_of_words import BagOfWordsEncoder
from calque.models.convolutional import ConvolutionalDecoder, ConvolutionalEncoder
from tests.laws.equations.shared import DecoderOutput, dense, mean, softmax


def convolutional_encoder(encoder: ConvolutionalEncoder, source: list[int]) -> tuple[list[Tensor], list[Tensor]]:
    """z and e (§3.1, §3.2): each block sees k/2 neighbours on both sides, zeros beyond the sentence."""
    embedded = embed(encoder.embedding, source)
    stream = [project(encoder.enter, e) for e in embedded]
    for layer in encoder.convolutions:
        side = [torch.zeros_like(stream[0])] * (layer.kernel // 2)
        around = side + stream + side
        gated = [gate(layer, around[i : i + layer.kernel]) for i in range(len(stream))]
        stream = [math.sqrt(0.5) * (x + y) for x, y in zip(gated, stream, strict=True)]
    return [project(encoder.leave, h) for h in stream], embedded


def convolutional_decoder(
    decoder: ConvolutionalDecoder, target: list[int], memory: list[Tensor], inputs: list[Tensor]
) -> DecoderOutput:
    """§3.2-3.4: d = W h + b + g, a = softmax(d·z), c = m √(1/m) Σ a (z + e), sums of two scaled by √0.5."""
    embedded = embed(decoder.embedding, target)
    stream, layer_weights = [project(decoder.enter, g) for g in embedded], []
    m = len(memory)
    for layer in decoder.layers:
        k = layer.convolution.kernel
        before = [torch.zeros_like(stream[0])] * (k - 1) + stream
        after, weights = [], []
        for i, g in enumerate(embedded):
            h = gate(layer.convolution, before[i : i + k])
            d = project(layer.query, h) + g
            a = softmax([d @ z for z in memory])
            c = m * math.sqrt(1 / m) * mean(a, [z + e for z, e in zip(memory, inputs, strict=True)])
            h = math.sqrt(0.5) * (h + project(layer.found, c))
            after.append(math.sqrt(0.5) * (h + stream[i]))
            weights.append(a)
        stream = after
        layer_weights.append(torch.stack(weights))
    return DecoderOutput(
        torch.stack([project(decoder.leave, h) for h in stream]), sum(layer_weights) / len(layer_weights)
    )


def embed(embedding, tokens: list[int]) -> list[Tensor]:
    """w + p, positions from 0; positions beyond the table share its last vector (§3.1)."""
    last = len(embedding.positions) - 1
    return [embedding.weight[token] + embedding.positions[min(position, last)] for position, token in enumerate(tokens)]


def project(layer, x: Tensor) -> Tensor:
    """Output by output: g (v·x) / |v| + b."""
    rows = zip(layer.direction, layer.magnitude, layer.bias, strict=True)
    return torch.stack([g * (v @ x) / math.sqrt(v @ v) + b for v, g, b in rows])


def gate(layer, window: list[Tensor]) -> Tensor:
    """A ⊗ σ(B) (§3.2): each channel's weights over the whole window, normalised to g."""
    channels = []
    for v, g, b in zip(layer.direction, layer.magnitude, layer.bias, strict=True):
        length = math.sqrt((v * v).sum())
        channels.append(sum(g * (v[:, position] @ x) / length for position, x in enumerate(window)) + b)
    half = len(channels) // 2
    return torch.stack([a * torch.sigmoid(b) for a, b in zip(channels[:half], channels[half:], strict=True)])


def mean_encoder(encoder: BagOfWordsEncoder, source: list[int]):
    """tanh(W e + b) for each token; the final state is tanh(W ē + b)."""
    embedded = [encoder.embedding.weight[token] for token in source]
    values = [torch.tanh(dense(encoder.dense, e)) for e in embedded]
    return values, [(torch.tanh(dense(encoder.dense, sum(embedded) / len(embedded))),)]
