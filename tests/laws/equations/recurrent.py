"""Cells, the recurrent encoder, bridges, and the decoder without attention.

A state is a list with (h,) or (h, c) for each layer.
"""

import torch
from torch import Tensor

from calque.models.cho import ChoDecoder
from calque.models.recurrent import RecurrentDecoder, RecurrentEncoder
from tests.laws.equations.shared import DecoderOutput, dense, maxout, normed

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


def rnn_relu(weights, x, state):
    """h' = max(0, W x + U h) (Le 2015)."""
    W, U, b, d = weights
    return (torch.clamp(W @ x + b + U @ state[0] + d, min=0),)


CELLS = {"rnn": rnn, "rnn-relu": rnn_relu, "lstm": lstm, "gru": gru, "gru-original": gru_original}


# Cells with layer normalisation (Ba 2016, §3.1 and supplement)


def normed_rnn(weights, norms, x, state, squash):
    W, U = weights
    return (squash(normed(norms["total"], W @ x + U @ state[0])),)


def normed_lstm(weights, norms, x, state):
    W, U = weights
    h, c = state
    i, f, g, o = (normed(norms["inputs"], W @ x) + normed(norms["hidden"], U @ h)).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(normed(norms["cell"], c)), c


def normed_gru(weights, norms, x, state, *, original):
    """z and r as one vector, the candidate as another; h̃ resets after the product, or before it (Cho's form)."""
    W, U = weights
    (h,) = state
    n = len(h)
    r, z = (normed(norms["inputs"], W[: 2 * n] @ x) + normed(norms["hidden"], U[: 2 * n] @ h)).sigmoid().chunk(2)
    entering = normed(norms["candidate_inputs"], W[2 * n :] @ x)
    if original:
        candidate = torch.tanh(entering + normed(norms["candidate_hidden"], U[2 * n :] @ (r * h)))
    else:
        candidate = torch.tanh(entering + r * normed(norms["candidate_hidden"], U[2 * n :] @ h))
    return (z * h + (1 - z) * candidate,)


def step(layer, x: Tensor, state):
    """One layer's next state."""
    weights = layer.kernel.all_weights[0]
    if not layer.norms:
        return CELLS[layer.cell](weights, x, state)
    match layer.cell:
        case "rnn":
            return normed_rnn(weights, layer.norms, x, state, torch.tanh)
        case "rnn-relu":
            return normed_rnn(weights, layer.norms, x, state, torch.relu)
        case "lstm":
            return normed_lstm(weights, layer.norms, x, state)
        case _:
            return normed_gru(weights, layer.norms, x, state, original=layer.cell == "gru-original")


# Stacked layers


def above(name: str, number: int, layers: int, connection, x: Tensor, h: Tensor) -> Tensor:
    """The input of layer number + 1, from the input x and output h of layer `number`."""
    if name == "residual" and number > 0:
        return x + h
    if name == "highway" and number > 0:
        g = torch.sigmoid(dense(connection.gate, x))
        return g * h + (1 - g) * x
    if name == "dense" and number < layers - 1:
        return torch.cat([x, h])
    return h


def steps(stack, x: Tensor, states):
    """The output of the top layer, and the next states of all layers."""
    after = []
    for number, (layer, state) in enumerate(zip(stack.layers, states, strict=True)):
        after.append(step(layer, x, state))
        name, count = stack.config.connection, len(stack.layers)
        x = above(name, number, count, stack.connections[number], x, after[-1][0])
    return x, after


# Encoder, bridge, decoder


def run(layer, inputs: list[Tensor]):
    """A layer's h after each input, starting from zero, and its final state."""
    zero = inputs[0].new_zeros(layer.width)
    state, outputs = (zero, zero) if layer.cell == "lstm" else (zero,), []
    for x in inputs:
        state = step(layer, x, state)
        outputs.append(state[0])
    return outputs, state


def recurrent_encoder(encoder: RecurrentEncoder, source: list[int]):
    """hⱼ = [→hⱼ; ←hⱼ]; the final states are →h of the last token and ←h of the first.

    A reversed source keeps its end mark last; outputs are returned in the order of the tokens.
    """
    config = encoder.config
    order = [*range(len(source) - 2, -1, -1), len(source) - 1] if config.reverse else [*range(len(source))]
    values = [encoder.embedding.weight[source[position]] for position in order]
    finals = []
    for number, directions in enumerate(encoder.layers):
        outputs, final = run(directions[0], values)
        is_bidirectional = config.bidirectional is True or (config.bidirectional == "first" and number == 0)
        assert len(directions) == 1 + is_bidirectional
        if is_bidirectional:
            backward, first = run(directions[1], values[::-1])
            outputs = [torch.cat(pair) for pair in zip(outputs, backward[::-1], strict=True)]
            final = tuple(torch.cat(pair) for pair in zip(final, first, strict=True))
        values = [
            above(config.connection, number, config.layers, encoder.connections[number], x, h)
            for x, h in zip(values, outputs, strict=True)
        ]
        finals.append(final)
    by_position = dict(zip(order, values, strict=True))
    return [by_position[position] for position in range(len(source))], finals


def bridge(decoder, finals):
    """The decoder's initial states, one per layer; parts that the encoder does not have are zero."""
    bridge_layer, first = decoder.bridge, []
    spreads = len(finals) < bridge_layer.layers  # then all layers come from the top state, each with its own matrix
    for number in range(bridge_layer.layers):
        final = finals[-1] if spreads else finals[number - bridge_layer.layers]
        inputs = [part[len(part) // 2 :] for part in final] if bridge_layer.name == "backward" else list(final)
        match bridge_layer.name:
            case "zero":
                parts = []
            case "copy":
                parts = inputs
            case "tanh" | "backward":
                layers = zip(bridge_layer.dense, inputs, strict=False)
                parts = [torch.tanh(layer_rows(bridge_layer, number, layer, part)) for layer, part in layers]
        missing = bridge_layer.parts - len(parts)
        first.append((*parts[: bridge_layer.parts], *(final[0].new_zeros(bridge_layer.width) for _ in range(missing))))
    return first


def layer_rows(bridge_layer, number: int, layer, x: Tensor) -> Tensor:
    """W x + b with the rows of one layer if a matrix holds several layers."""
    rows = (
        slice(number * bridge_layer.width, (number + 1) * bridge_layer.width) if bridge_layer.spreads else slice(None)
    )
    return layer.weight[rows] @ x + layer.bias[rows]


def sutskever(decoder: RecurrentDecoder, target: list[int], finals) -> DecoderOutput:
    """Sutskever 2014, §2: the source is the state the decoder starts from."""
    states, hidden = bridge(decoder, finals), []
    for token in target:
        top, states = steps(decoder.stack, decoder.embedding.weight[token], states)
        hidden.append(top)
    return DecoderOutput(torch.stack(hidden), None)


def cho(decoder: ChoDecoder, target: list[int], finals) -> DecoderOutput:
    """Cho 2014, A.1.2: the summary c enters every gate, the candidate inside the reset, and the readout."""
    c = torch.tanh(dense(decoder.summarise, finals[-1][0]))
    h = torch.tanh(dense(decoder.first, c))
    (Wr, Wz, W), (br, bz, b) = decoder.from_word.weight.chunk(3), decoder.from_word.bias.chunk(3)
    (Ur, Uz, U), (Cr, Cz, C) = decoder.from_state.weight.chunk(3), decoder.from_summary.weight.chunk(3)
    hidden = []
    for token in target:
        e = decoder.embedding.weight[token]
        r = torch.sigmoid(Wr @ e + Ur @ h + Cr @ c + br)
        z = torch.sigmoid(Wz @ e + Uz @ h + Cz @ c + bz)
        candidate = torch.tanh(W @ e + b + r * (U @ h + C @ c))
        h = z * h + (1 - z) * candidate
        hidden.append(maxout(decoder.readout, torch.cat([h, e, c])))
    return DecoderOutput(torch.stack(hidden), None)
