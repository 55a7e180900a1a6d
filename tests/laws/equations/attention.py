"""Recurrent decoders with attention: Luong 2015 and Bahdanau 2015."""

import torch
from torch import Tensor

from calque.layers.attention import AdditiveScore, DotScore, GeneralScore
from calque.models.bahdanau import BahdanauDecoder
from calque.models.luong import LuongDecoder
from tests.laws.equations.recurrent import bridge, step, steps
from tests.laws.equations.shared import Read, dense, mean, softmax


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
