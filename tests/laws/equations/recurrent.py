"""Cells, the recurrent encoder, bridges, and the decoder without attention.

A state is a list of layers, a layer's state (h,) or (h, c).
"""

import torch
from torch import Tensor

from calque.models.recurrent import RecurrentDecoder, RecurrentEncoder
from tests.laws.equations.shared import Read, dense

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


# Encoder, bridge, decoder


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
