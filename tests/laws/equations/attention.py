"""Recurrent decoders with attention: Luong 2015, Bahdanau 2015, Wu 2016."""

import math

import torch
from torch import Tensor

from calque.layers.attention import Attention
from calque.models.bahdanau import BahdanauDecoder
from calque.models.gnmt import GnmtDecoder
from calque.models.luong import LuongDecoder
from tests.laws.equations.recurrent import above, bridge, step, steps
from tests.laws.equations.shared import DecoderOutput, dense, maxout, mean, softmax


def luong(decoder: LuongDecoder, target: list[int], memory: list[Tensor], finals) -> DecoderOutput:
    """Luong 2015, eq. 5 and §3.3: h̃ = tanh(W [c; h]), fed to the next step with input feeding."""
    states, hidden, attention = bridge(decoder, finals), [], SentenceAttention(decoder.attention, memory)
    attentional, gates = memory[0].new_zeros(decoder.width), []
    for token in target:
        embedded = decoder.embedding.weight[token]
        x = torch.cat([embedded, attentional]) if decoder.input_feeding else embedded
        h, states = steps(decoder.stack, x, states)
        c = attention.attend(h)
        attentional = torch.tanh(decoder.combine.weight @ torch.cat([c, h]))
        hidden.append(attentional)
        gates.append(copy_gate(decoder, c, h, embedded))
    return attention.read(hidden, gates)


def bahdanau(decoder: BahdanauDecoder, target: list[int], memory: list[Tensor], finals) -> DecoderOutput:
    """Bahdanau 2015, A.1.2 and A.2.2."""
    ((s, *rest),) = bridge(decoder, finals)
    attention, hidden, gates = SentenceAttention(decoder.attention, memory), [], []
    for token in target:
        e = decoder.embedding.weight[token]
        c = attention.attend(s)
        hidden.append(maxout(decoder.readout, torch.cat([s, e, c])))  # U s(i-1) + V E y(i-1) + C c(i)
        gates.append(copy_gate(decoder, c, s, e))
        if decoder.recurrence.cell == "gru-original":
            s = bahdanau_unit(decoder.recurrence, e, c, s)
        else:
            s, *rest = step(decoder.recurrence, torch.cat([e, c]), (s, *rest))
    return attention.read(hidden, gates)


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


def gnmt(decoder: GnmtDecoder, target: list[int], memory: list[Tensor], finals) -> DecoderOutput:
    """Wu 2016, §3, eq. 4 and fig. 1: the bottom layer's previous state attends, and every layer reads the context."""
    states, attention, hidden, gates = bridge(decoder, finals), SentenceAttention(decoder.attention, memory), [], []
    layers = [decoder.bottom, *decoder.layers]
    for token in target:
        e = decoder.embedding.weight[token]
        a = attention.attend(states[0][0])
        x, after = e, []
        for number, (layer, state) in enumerate(zip(layers, states, strict=True)):
            after.append(step(layer, torch.cat([x, a]), state))
            connection = decoder.connections[number - 1] if number else None
            name = connection.name if number else "none"
            x = above(name, number, len(layers), connection, x, after[-1][0])
        states = after
        hidden.append(x)
        gates.append(copy_gate(decoder, a, x, e))
    return attention.read(hidden, gates)


def copy_gate(decoder, c: Tensor, s: Tensor, x: Tensor) -> Tensor | None:
    """See 2017, eq. 8, before its σ: w_c·c + w_s·s + w_x·x + b."""
    if decoder.copy_gate is None:
        return None
    w, b = decoder.copy_gate.dense.weight[0], decoder.copy_gate.dense.bias[0]
    first, second = len(c), len(c) + len(s)
    return w[:first] @ c + w[first:second] @ s + w[second:] @ x + b


class SentenceAttention:
    """The attention of one sentence, with its step count and coverage as state."""

    def __init__(self, attention: Attention, memory: list[Tensor]) -> None:
        self.attention = attention
        self.config = attention.config
        self.memory = memory
        self.covered = [memory[0].new_zeros(()) for _ in memory]
        self.weights: list[Tensor] = []

    def attend(self, h: Tensor) -> Tensor:
        """The context of a query."""
        t, length = len(self.weights), len(self.memory)
        scores = [self.score(h, position) for position in range(length)]
        match self.config.reach:
            case "global":
                weights = softmax(scores)
            case "local-m":
                centre = min(t, length - 1)
                weights = self.windowed(scores, lambda position: abs(position - centre) <= self.config.window)
            case "local-p":
                predict = self.attention.predict
                p = length * torch.sigmoid(predict.outer.weight[0] @ torch.tanh(predict.inner.weight @ h))
                weights = self.windowed(scores, lambda position: abs(position - float(p)) <= self.config.window)
                sigma = self.config.window / 2
                bell = [torch.exp(-((position - p) ** 2) / (2 * sigma**2)) for position in range(length)]
                weights = weights * torch.stack(bell)
        if self.config.choice == "hard":
            weights = torch.eye(length, dtype=weights.dtype)[
                max(range(length), key=lambda position: float(weights[position]))
            ]
        self.weights.append(weights)
        self.covered = [covered + weight for covered, weight in zip(self.covered, weights, strict=True)]
        context = mean(weights, self.memory)
        if self.config.gated:
            context = torch.sigmoid(dense(self.attention.gate, h)) * context
        return context

    def windowed(self, scores: list[Tensor], is_inside) -> Tensor:
        inside = [position for position in range(len(scores)) if is_inside(position)]
        weights = scores[0].new_zeros(len(scores))
        weights[inside] = softmax([scores[position] for position in inside])
        return weights

    def score(self, h: Tensor, position: int) -> Tensor:
        """Luong 2015, §3.1 and eq. 8; Vaswani 2017, eq. 1; Bahdanau 2015, A.1.2; with coverage See 2017, eq. 11."""
        score, value, covered = self.attention.score, self.memory[position], self.covered[position]
        coverage_weight = score.coverage if score.coverage is not None else None
        extra = 0 if coverage_weight is None else coverage_weight[0] * covered
        match self.config.score:
            case "dot":
                return h @ value + extra
            case "scaled_dot":
                return h @ value / math.sqrt(len(h)) + extra
            case "general":
                return h @ (score.key.weight @ value) + extra
            case "location":
                return score.weight[min(position, len(score.weight) - 1)] @ h + extra
            case "concat":
                W = torch.cat([score.query.weight, score.key.weight], dim=1)
                inner = W @ torch.cat([h, value])
            case "additive":
                inner = score.query.weight @ h + score.key.weight @ value
        if coverage_weight is not None:
            inner = inner + coverage_weight * covered
        return score.value.weight[0] @ torch.tanh(inner)

    def read(self, hidden: list[Tensor], gates: list[Tensor | None]) -> DecoderOutput:
        gate = (
            torch.stack([gate_logit for gate_logit in gates if gate_logit is not None]) if None not in gates else None
        )
        return DecoderOutput(torch.stack(hidden), torch.stack(self.weights), gate)
