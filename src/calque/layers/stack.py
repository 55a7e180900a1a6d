"""A stack of unidirectional recurrent layers, with connections, dropout and noise.

Letters: N rows, T positions, E input width, D width, L layers, G gates. A state's parts are (h,) or (h, c).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from calque.config import Config
from calque.layers.bounds import Layers, Width
from calque.layers.connections import Connection, ConnectionName, input_width
from calque.layers.dropout import dropout, scaled_mask
from calque.layers.recurrent import CellName, Recurrence, State


class StackConfig(Config):
    """A stack of recurrent layers."""

    cell: CellName = "lstm"
    """rnn (tanh), rnn-relu, lstm, gru (cuDNN's form) or gru-original (Cho 2014: reset before the product)."""
    layers: Layers = 2
    """The number of recurrent layers."""
    width: Width = 256
    """Width of the recurrent layers."""
    connection: ConnectionName = "none"
    """Connections between layers: none, residual, dense (each layer reads all below it) or highway (gated residual)."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """Dropout on the embeddings, between layers and on the decoder's output."""
    variational: bool = False
    """Use one dropout mask for all positions of a sentence, also on recurrent states (Gal 2016); slower to train."""
    weight_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout on the recurrent weights, one mask per batch (DropConnect, Merity 2018)."""
    layer_norm: bool = False
    """Layer normalisation of the gates inside each cell (Ba 2016); slower, as it has no fused kernel."""
    noise: float = Field(default=0.0, ge=0)
    """Standard deviation of Gaussian noise added to each layer's outputs in training."""

    @property
    def embedding_dropout(self) -> float:
        """The dropout rate of the embedding: 0 if dropout is variational, since the first layer then applies it."""
        return 0.0 if self.variational else self.dropout


class Masks(NamedTuple):
    """The masks of variational dropout, the same at every position: 0 or 1 / (1 − dropout)."""

    inputs: tuple[Tensor, ...]  # per layer, [N,E]
    hidden: tuple[Tensor, ...]  # per layer, [N,D]
    output: Tensor  # [N,D]


class WeightMasks(NamedTuple):
    """The DropConnect masks of one forward pass: 0 or 1 / (1 − dropout) per recurrent weight, shared by all rows."""

    layers: tuple[Tensor, ...]  # per layer, [G·D,D]

    def select(self, rows: Tensor) -> Self:
        return self


class StackState(NamedTuple):
    """The state of a stack of recurrent layers between time steps, and the dropout masks of this forward pass."""

    parts: State  # (h,) or (h, c), each [N,L,D]
    masks: Masks | None = None  # in training with variational dropout
    weight_masks: WeightMasks | None = None  # in training with dropout of recurrent weights


Levels = tuple[State, ...]  # per layer, a state of [N,D] tensors
Weights = tuple[Tensor, ...]  # the recurrent weights of each layer, [G·D,D]


class RecurrentStack(nn.Module):
    """Stacked recurrent layers.

    Law: `forward` over T positions equals `enter`, which projects the inputs of all positions, and then T calls of
    `step`.
    """

    def __init__(self, config: StackConfig, *, input_width: int) -> None:
        super().__init__()
        self.widths = layer_widths(config, first=input_width)
        self.layers = nn.ModuleList(
            Recurrence(config.cell, input_width=width, width=config.width, layer_norm=config.layer_norm)
            for width in self.widths
        )
        self.connections = nn.ModuleList(connections(config))
        self.config = config

    @property
    def first(self) -> Recurrence:
        """The layer that reads the inputs."""
        layer = self.layers[0]
        assert isinstance(layer, Recurrence)
        return layer

    def start(self, parts: State) -> StackState:
        """The initial state for a batch: `parts` (h, or h and c, of all layers) and newly sampled dropout masks."""
        return StackState(parts, self._draw_masks(parts[0][:, 0]), self._draw_weight_masks())

    def forward(self, inputs: Tensor, state: StackState) -> tuple[Tensor, StackState]:
        """The outputs [N,T,D] of the top layer and the state after them."""
        levels, weights, after = split_layers(state.parts), self.weights(state), []
        for number, (layer, connection) in enumerate(self._levels()):
            entering = self._drop(inputs, number, state.masks)
            weight = weights[number] if weights else None
            outputs, final = layer(entering, levels[number], keep=_keep(state.masks, number), weight=weight)
            inputs = connection(inputs, self._add_noise(outputs))
            after.append(final)
        return inputs, state._replace(parts=stack_layers(after))

    def enter(self, inputs: Tensor, state: StackState) -> Tensor:
        """The contribution [N,T,G·D] of `inputs` to the G gates of the first layer, for all T steps at once.

        `inputs` may have only the first columns of the layer's inputs; `entering` adds the others at each step.
        """
        if state.masks is not None:
            inputs = inputs * state.masks.inputs[0][:, None, : inputs.shape[-1]]
        return self.first.project(inputs)

    def entering(self, state: StackState, *, start: int) -> Callable[[Tensor], Tensor]:
        """A function that computes the contribution [N,G·D] of further input columns to the first layer's gates.

        It takes the columns from `start` on; `enter` takes those before.
        """
        project = self.first.rest(start)
        if state.masks is None:
            return project
        mask = state.masks.inputs[0][:, start:]
        return lambda inputs: project(inputs * mask)

    def weights(self, state: StackState) -> Weights | None:
        """The recurrent weights after weight dropout, for `step`; None without it. Call this once before a loop."""
        if state.weight_masks is None:
            return None
        layers = (layer for layer, _ in self._levels())
        return tuple(layer.dropped(mask) for layer, mask in zip(layers, state.weight_masks.layers, strict=True))

    def step(
        self,
        entered: Tensor,
        levels: Levels,
        *,
        inputs: Tensor,
        masks: Masks | None = None,
        weights: Weights | None = None,
    ) -> tuple[Tensor, Levels]:
        """The output [N,D] of the top layer and the next states, given the first layer's gate inputs [N,G·D].

        `inputs` [N,E], from which the gate inputs were computed, are used only in a dense stack.
        """
        after = []
        for number, (layer, connection) in enumerate(self._levels()):
            gates = entered if number == 0 else layer.project(self._drop(inputs, number, masks))
            weight = weights[number] if weights else None
            outputs, final = layer.step(gates, levels[number], keep=_keep(masks, number), weight=weight)
            inputs = connection(inputs, self._add_noise(outputs))
            after.append(final)
        return inputs, tuple(after)

    def leave(self, outputs: Tensor, state: StackState) -> Tensor:
        """The stack's outputs [N,T,D] after dropout."""
        if state.masks is not None:
            return outputs * state.masks.output[:, None]
        return dropout(outputs, self.config.dropout if not self.config.variational else 0.0, self.training)

    def _draw_masks(self, rows: Tensor) -> Masks | None:
        """New masks of variational dropout for `rows` [N,...]; None in evaluation or without variational dropout."""
        width, dropout = self.config.width, self.config.dropout
        if not (self.training and self.config.variational and dropout):
            return None
        inputs = tuple(dropout_mask(rows, width=input_width, dropout=dropout) for input_width in self.widths)
        hidden = tuple(dropout_mask(rows, width=width, dropout=dropout) for _ in self.widths)
        return Masks(inputs, hidden, dropout_mask(rows, width=width, dropout=dropout))

    def _draw_weight_masks(self) -> WeightMasks | None:
        dropout = self.config.weight_dropout
        if not (self.training and dropout):
            return None
        return WeightMasks(tuple(layer.weight_mask(dropout=dropout) for layer, _ in self._levels()))

    def _levels(self) -> Iterator[tuple[Recurrence, Connection]]:
        for layer, connection in zip(self.layers, self.connections, strict=True):
            assert isinstance(layer, Recurrence) and isinstance(connection, Connection)
            yield layer, connection

    def _drop(self, inputs: Tensor, number: int, masks: Masks | None) -> Tensor:
        """The inputs [N,E] or [N,T,E] of layer `number` after dropout.

        Without variational dropout, the first layer's inputs are unchanged: the embedding has already applied dropout.
        """
        if masks is not None:
            return inputs * (masks.inputs[number] if inputs.dim() == 2 else masks.inputs[number][:, None])
        if number == 0 or self.config.variational:
            return inputs
        return dropout(inputs, self.config.dropout, self.training)

    def _add_noise(self, outputs: Tensor) -> Tensor:
        return add_noise(outputs, noise=self.config.noise if self.training else 0.0)


def layer_widths(config: StackConfig, *, first: int) -> list[int]:
    """The input width of each layer."""
    return [
        input_width(config.connection, layer=layer, first=first, width=config.width) for layer in range(config.layers)
    ]


def connections(config: StackConfig) -> Iterator[Connection]:
    """The connection after each layer, which computes the next layer's input."""
    for layer in range(config.layers):
        yield Connection(config.connection, layer=layer, layers=config.layers, width=config.width)


def dropout_mask(like: Tensor, *, width: int, dropout: float) -> Tensor:
    """A dropout mask [N,width], with one row for each row of `like` [N,...].

    Each value is 0 with probability `dropout`, else 1 / (1 − dropout).
    """
    return scaled_mask(like.new_empty(like.shape[0], width), dropout)


def add_noise(values: Tensor, *, noise: float) -> Tensor:
    """`values` plus Gaussian noise of standard deviation `noise`."""
    return values + noise * torch.randn_like(values) if noise else values


def split_layers(parts: State) -> Levels:
    """The state of each layer, as tensors [N,D], given the state of all layers as tensors [N,L,D]."""
    return tuple(zip(*(part.unbind(1) for part in parts), strict=True))


def stack_layers(levels: Sequence[State]) -> State:
    """The state of all layers as tensors [N,L,D], given the state of each layer; the inverse of `split_layers`."""
    return tuple(torch.stack(parts, dim=1) for parts in zip(*levels, strict=True))


def _keep(masks: Masks | None, number: int) -> Tensor | None:
    return None if masks is None else masks.hidden[number]
