"""Every family's equations written out a second time: one sentence, one position, one head, one vector at a time.

Nothing here is shared with the models but their weights. A state is a list of layers, a layer's state (h,) or (h, c).
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from calque.layers.attention import AdditiveScore, DotScore, GeneralScore
from calque.models.bahdanau import BahdanauDecoder
from calque.models.luong import LuongDecoder
from calque.models.model import Model
from calque.models.recurrent import RecurrentDecoder, RecurrentEncoder
from calque.models.transformer import TransformerDecoder, TransformerEncoder


class Read(NamedTuple):
    """What a decoder computes for one sentence."""

    hidden: Tensor  # [T,D]
    attention: Tensor | None  # [T,S]


def read(model: Model, source: list[int], target: list[int]) -> Read:
    """What the papers say a model computes when it reads `target` after `source`."""
    memory, finals = encode(model.encoder, source)
    decoder = model.decoder
    match decoder:
        case RecurrentDecoder():
            return sutskever(decoder, target, finals)
        case LuongDecoder():
            return luong(decoder, target, memory, finals)
        case BahdanauDecoder():
            return bahdanau(decoder, target, memory, finals)
        case TransformerDecoder():
            return transformer_decoder(decoder, target, memory)
    raise NotImplementedError(f"write the equations of {type(decoder).__name__} down here")


def encode(encoder, source: list[int]):
    """The memory, a vector a source token, and the last states, a layer each."""
    match encoder:
        case RecurrentEncoder():
            return recurrent_encoder(encoder, source)
        case TransformerEncoder():
            memory = transformer_encoder(encoder, source)
            return memory, [(sum(memory) / len(memory),)]
    raise NotImplementedError(f"write the equations of {type(encoder).__name__} down here")


# Cells


def rnn(weights, x, state):
    """h' = tanh(W x + U h) (Elman 1990)."""
    W, U, b, d = weights
    hidden = torch.tanh(W @ x + b + U @ state[0] + d)
    return (hidden,)


def lstm(weights, x, state):
    """The LSTM with a forget gate and without peepholes (Gers 2000)."""
    W, U, b, d = weights
    h, c = state
    (Wi, Wf, Wg, Wo), (Ui, Uf, Ug, Uo), bias = W.chunk(4), U.chunk(4), (b + d).chunk(4)
    i = torch.sigmoid(Wi @ x + Ui @ h + bias[0])
    f = torch.sigmoid(Wf @ x + Uf @ h + bias[1])
    g = torch.tanh(Wg @ x + Ug @ h + bias[2])
    o = torch.sigmoid(Wo @ x + Uo @ h + bias[3])
    c = f * c + i * g
    return o * torch.tanh(c), c


def gru(weights, x, state):
    """The GRU as cuDNN has it: h̃ = tanh(W x + r ∘ U h), h' = (1 − z) ∘ h̃ + z ∘ h."""
    W, U, b, d = weights
    (h,) = state
    (Wr, Wz, Wn), (Ur, Uz, Un) = W.chunk(3), U.chunk(3)
    (br, bz, bn), (dr, dz, dn) = b.chunk(3), d.chunk(3)
    r = torch.sigmoid(Wr @ x + br + Ur @ h + dr)
    z = torch.sigmoid(Wz @ x + bz + Uz @ h + dz)
    n = torch.tanh(Wn @ x + bn + r * (Un @ h + dn))
    return ((1 - z) * n + z * h,)


def gru_original(weights, x, state):
    """Cho 2014, eq. 5-8: h̃ = tanh(W x + U (r ∘ h)), h' = z ∘ h + (1 − z) ∘ h̃."""
    W, U, b, d = weights
    (h,) = state
    (Wr, Wz, Wh), (Ur, Uz, Uh), bias = W.chunk(3), U.chunk(3), (b + d).chunk(3)
    r = torch.sigmoid(Wr @ x + Ur @ h + bias[0])
    z = torch.sigmoid(Wz @ x + Uz @ h + bias[1])
    candidate = torch.tanh(Wh @ x + Uh @ (r * h) + bias[2])
    return (z * h + (1 - z) * candidate,)


CELLS = {"rnn": rnn, "lstm": lstm, "gru": gru, "gru-original": gru_original}


def step(layer, x: Tensor, state):
    """One layer's next state."""
    return CELLS[layer.cell](layer.kernel.all_weights[0], x, state)


def steps(layers, x: Tensor, states):
    """The next states of layers on top of each other, each reading the h of the one below."""
    after = []
    for layer, state in zip(layers, states, strict=True):
        after.append(step(layer, x, state))
        x = after[-1][0]
    return after


# Recurrent families


def run(layer, inputs: list[Tensor]):
    """A layer's h after each input, from zero, and its last state."""
    zero = inputs[0].new_zeros(layer.width)
    state, outputs = (zero, zero) if layer.cell == "lstm" else (zero,), []
    for x in inputs:
        state = step(layer, x, state)
        outputs.append(state[0])
    return outputs, state


def recurrent_encoder(encoder: RecurrentEncoder, source: list[int]):
    """hⱼ = [→hⱼ; ←hⱼ]; the last states are →h of the last token and ←h of the first."""
    values = [encoder.embedding.weight[token] for token in source]
    finals = []
    for directions in encoder.layers:
        outputs, final = run(directions[0], values)
        if len(directions) == 2:
            backward, first = run(directions[1], values[::-1])
            outputs = [torch.cat(pair) for pair in zip(outputs, backward[::-1], strict=True)]
            final = tuple(torch.cat(pair) for pair in zip(final, first, strict=True))
        values = outputs
        finals.append(final)
    return values, finals


def bridge(decoder, finals):
    """The decoder's first states, a layer each; the parts that the encoder cannot give are zero."""
    by, first = decoder.bridge, []
    for final in finals[-by.layers :]:
        match by.name:
            case "zero":
                parts = []
            case "copy":
                parts = list(final)
            case "tanh":
                parts = [torch.tanh(dense(layer, part)) for layer, part in zip(by.dense, final, strict=False)]
            case "backward":
                halves = [part[len(part) // 2 :] for part in final]
                parts = [torch.tanh(dense(layer, half)) for layer, half in zip(by.dense, halves, strict=False)]
        missing = by.parts - len(parts)
        first.append((*parts[: by.parts], *(final[0].new_zeros(by.width) for _ in range(missing))))
    return first


def sutskever(decoder: RecurrentDecoder, target: list[int], finals) -> Read:
    """Sutskever 2014, §2: the source is the state the decoder starts from."""
    states, hidden = bridge(decoder, finals), []
    for token in target:
        states = steps(decoder.stack.layers, decoder.embedding.weight[token], states)
        hidden.append(states[-1][0])
    return Read(torch.stack(hidden), None)


def luong(decoder: LuongDecoder, target: list[int], memory: list[Tensor], finals) -> Read:
    """Luong 2015, eq. 5, 7, 8 and §3.3: h̃ = tanh(W [c; h]), fed to the next step where input feeding is on."""
    states, hidden, attention = bridge(decoder, finals), [], []
    attentional = memory[0].new_zeros(decoder.width)
    for token in target:
        embedded = decoder.embedding.weight[token]
        x = torch.cat([embedded, attentional]) if decoder.input_feeding else embedded
        states = steps(decoder.stack.layers, x, states)
        h = states[-1][0]
        weights = softmax([luong_score(decoder.score, h, value) for value in memory])
        attentional = torch.tanh(decoder.combine.weight @ torch.cat([mean(weights, memory), h]))
        hidden.append(attentional)
        attention.append(weights)
    return Read(torch.stack(hidden), torch.stack(attention))


def luong_score(score, h: Tensor, value: Tensor) -> Tensor:
    """Luong 2015, eq. 8: dot hᵗ·h̄, general hᵗ·W h̄, concat v·tanh(W [h; h̄])."""
    match score:
        case GeneralScore():
            return h @ (score.key.weight @ value)
        case AdditiveScore():
            W = torch.cat([score.query.weight, score.key.weight], dim=1)
            return score.value.weight[0] @ torch.tanh(W @ torch.cat([h, value]))
        case DotScore():
            return h @ value
    raise NotImplementedError(type(score).__name__)


def bahdanau(decoder: BahdanauDecoder, target: list[int], memory: list[Tensor], finals) -> Read:
    """Bahdanau 2015, A.1.2 and A.2.2."""
    ((s, *rest),) = bridge(decoder, finals)
    score, hidden, attention = decoder.score, [], []
    for token in target:
        e = decoder.embedding.weight[token]
        energies = [score.value.weight[0] @ torch.tanh(score.query.weight @ s + score.key.weight @ h) for h in memory]
        weights = softmax(energies)
        c = mean(weights, memory)
        t = dense(decoder.readout, torch.cat([s, e, c]))  # U s(i-1) + V E y(i-1) + C c(i)
        hidden.append(torch.stack([torch.maximum(t[2 * j], t[2 * j + 1]) for j in range(len(t) // 2)]))
        attention.append(weights)
        if decoder.recurrence.cell == "gru-original":
            s = bahdanau_unit(decoder.recurrence, e, c, s)
        else:
            s, *rest = step(decoder.recurrence, torch.cat([e, c]), (s, *rest))
    return Read(torch.stack(hidden), torch.stack(attention))


def bahdanau_unit(layer, e: Tensor, c: Tensor, s: Tensor) -> Tensor:
    """s' = (1 − z) ∘ s + z ∘ s̃, s̃ = tanh(W e + U (r ∘ s) + C c).

    The paper's update gate is one minus Cho's, whose weights we hold: σ(−a) = 1 − σ(a), so the paper's W_z, U_z and
    C_z are ours with the sign changed.
    """
    inputs, U, b, d = layer.kernel.all_weights[0]
    W, C = inputs[:, : len(e)], inputs[:, len(e) :]
    (Wr, Wz, Ws), (Ur, Uz, Us), (Cr, Cz, Cs), bias = W.chunk(3), U.chunk(3), C.chunk(3), (b + d).chunk(3)
    z = torch.sigmoid((-Wz) @ e + (-Uz) @ s + (-Cz) @ c - bias[1])
    r = torch.sigmoid(Wr @ e + Ur @ s + Cr @ c + bias[0])
    candidate = torch.tanh(Ws @ e + Us @ (r * s) + Cs @ c + bias[2])
    return (1 - z) * s + z * candidate


# The Transformer


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


def normed(norm, x: Tensor) -> Tensor:
    """Layer normalisation (Ba 2016)."""
    centred = x - x.sum() / len(x)
    return norm.weight * centred / torch.sqrt((centred * centred).sum() / len(x) + 1e-5) + norm.bias


# What all share


def dense(layer, x: Tensor) -> Tensor:
    return layer.weight @ x + layer.bias


def softmax(scores: list[Tensor]) -> Tensor:
    powers = [torch.exp(score - max(scores)) for score in scores]
    return torch.stack([power / sum(powers) for power in powers])


def mean(weights: Tensor, values: list[Tensor]) -> Tensor:
    return sum(weight * value for weight, value in zip(weights, values, strict=True))
