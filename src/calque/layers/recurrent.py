"""Recurrent layers: one direction, one layer, over many positions at once or one step at a time.

Letters: N rows, T positions, E input width, D width, L layers, G gates. A state is (h,) or (h, c).
"""

from typing import Literal, assert_never

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CellName = Literal["rnn", "lstm", "gru", "gru-original"]
State = tuple[Tensor, ...]


def state_parts(cell: CellName) -> int:
    """How many tensors a state has: (h, c) for an LSTM, (h,) otherwise."""
    return 2 if cell == "lstm" else 1


class Recurrence(nn.Module):
    """One recurrent layer in one direction.

    Law: `forward` over T positions equals T times `step` on `project`.
    The weights live in PyTorch's own module (gates i f g o of an LSTM, r z n of a GRU), whose fused kernels
    `forward` calls, except for the original GRU, which has none: it resets before the product (Cho 2014, eq. 8).
    """

    def __init__(self, cell: CellName, *, input_width: int, width: int) -> None:
        super().__init__()
        self.cell = cell
        self.width = width
        kernel = {"rnn": nn.RNN, "lstm": nn.LSTM}.get(cell, nn.GRU)
        self.kernel: nn.RNNBase = kernel(input_width, width, batch_first=True)

    def zero_state(self, rows: int, *, like: Tensor) -> State:
        """A state of zeros for that many rows."""
        return tuple(like.new_zeros(rows, self.width) for _ in range(state_parts(self.cell)))

    def forward(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """[N,T,D] outputs and the state after them, from [N,T,E] inputs and a state of [N,D] tensors."""
        if self.cell == "gru-original":
            return self._unrolled(inputs, state)
        first = tuple(part[None].contiguous() for part in state)  # PyTorch has layers first
        outputs, after = self.kernel(inputs, first if self.cell == "lstm" else first[0])
        return outputs, tuple(part[0] for part in (after if self.cell == "lstm" else (after,)))

    def project(self, inputs: Tensor, *, start: int = 0) -> Tensor:
        """[...,G·D], the inputs' share of the gates; inputs narrower than E meet the columns from `start` on.

        The bias comes with the first column, so shares of neighbouring columns add up to the whole.
        """
        weight, _, bias, _ = self.kernel.all_weights[0]
        return F.linear(inputs, weight[:, start : start + inputs.shape[-1]], bias if start == 0 else None)

    def step(self, projected: Tensor, state: State) -> tuple[Tensor, State]:
        """[N,D] output and the next state, from the projected inputs [N,G·D] of one position."""
        match self.cell:
            case "rnn":
                hidden = (projected + self._recurrent(state[0])).tanh()
                return hidden, (hidden,)
            case "lstm":
                enter, forget, candidate, leave = (projected + self._recurrent(state[0])).chunk(4, dim=-1)
                memory = forget.sigmoid() * state[1] + enter.sigmoid() * candidate.tanh()
                hidden = leave.sigmoid() * memory.tanh()
                return hidden, (hidden, memory)
            case "gru":
                reset, update, candidate = self._recurrent(state[0]).chunk(3, dim=-1)
                reset_input, update_input, candidate_input = projected.chunk(3, dim=-1)
                candidate = (candidate_input + (reset_input + reset).sigmoid() * candidate).tanh()
            case "gru-original":
                reset, update = self._recurrent(state[0], stop=2).chunk(2, dim=-1)
                reset_input, update_input, candidate_input = projected.chunk(3, dim=-1)
                kept = (reset_input + reset).sigmoid() * state[0]
                candidate = (candidate_input + self._recurrent(kept, start=2)).tanh()
            case _:
                assert_never(self.cell)
        update = (update_input + update).sigmoid()
        hidden = update * state[0] + (1 - update) * candidate
        return hidden, (hidden,)

    def _recurrent(self, hidden: Tensor, *, start: int = 0, stop: int | None = None) -> Tensor:
        """The hidden state's share of the gates from `start` to `stop`."""
        gates = slice(start * self.width, None if stop is None else stop * self.width)
        _, weight, _, bias = self.kernel.all_weights[0]
        return F.linear(hidden, weight[gates], bias[gates])

    def _unrolled(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        outputs = []
        for projected in self.project(inputs).unbind(1):
            output, state = self.step(projected, state)
            outputs.append(output)
        return torch.stack(outputs, dim=1), state


class RecurrentStack(nn.Module):
    """Layers of one direction, dropout between them. Its state holds [N,L,D] tensors."""

    def __init__(self, cell: CellName, *, input_width: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            Recurrence(cell, input_width=input_width if layer == 0 else width, width=width) for layer in range(layers)
        )
        self.dropout = dropout

    def forward(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """[N,T,D] outputs of the top layer and the state after them."""
        after = []
        for number, layer in enumerate(self.layers):
            if number > 0:
                inputs = F.dropout(inputs, self.dropout, self.training)
            inputs, final = layer(inputs, tuple(part[:, number] for part in state))
            after.append(final)
        return inputs, _stack(after)

    def step(self, projected: Tensor, state: State) -> tuple[Tensor, State]:
        """[N,D] output of the top layer and the next state, from what enters the first layer's gates [N,G·D]."""
        after = []
        output = projected
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Recurrence)
            if number > 0:
                output = layer.project(F.dropout(output, self.dropout, self.training))
            output, final = layer.step(output, tuple(part[:, number] for part in state))
            after.append(final)
        return output, _stack(after)

    @property
    def first(self) -> Recurrence:
        """The layer that reads the inputs."""
        layer = self.layers[0]
        assert isinstance(layer, Recurrence)
        return layer


def _stack(states: list[State]) -> State:
    return tuple(torch.stack(parts, dim=1) for parts in zip(*states, strict=True))
