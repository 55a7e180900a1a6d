"""Recurrent layers of one direction on each other, with what connects, drops and disturbs them.

Letters: N rows, T positions, E input width, D width, L layers, G gates. A state's parts are (h,) or (h, c).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Self

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config
from calque.layers.bounds import Layers, Width
from calque.layers.connections import Connection, ConnectionName, input_width
from calque.layers.recurrent import CellName, Recurrence, State


class StackConfig(Config):
    """Recurrent layers."""

    cell: CellName = "lstm"
    """rnn (tanh), rnn-relu, lstm, gru (cuDNN's form) or gru-original (Cho 2014: reset before the product)."""
    layers: Layers = 2
    """How many recurrent layers stand on each other."""
    width: Width = 256
    """Width of the recurrent layers."""
    connection: ConnectionName = "none"
    """Between layers: none, residual, dense (each reads all below it) or highway (a gated residual)."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """On the embeddings, between layers and on what the decoder gives out."""
    variational: bool = False
    """One mask of dropout for all positions of a sentence, on what recurs too (Gal 2016); slower to train."""
    weight_dropout: float = Field(default=0.0, ge=0, lt=1)
    """On the recurrent weights: one mask for all positions and sentences of a batch (DropConnect, Merity 2018)."""
    layer_norm: bool = False
    """Normalise the gates inside each cell (Ba 2016); slower: no fused kernel does it."""
    noise: float = Field(default=0.0, ge=0)
    """Standard deviation of Gaussian noise on the hidden states that go up to the next layer, in training."""

    @property
    def embedding_dropout(self) -> float:
        """What an embedding drops itself; variational dropout of the embeddings is the first layer's."""
        return 0.0 if self.variational else self.dropout


class Masks(NamedTuple):
    """Variational dropout of one sentence: what is kept at every position, scaled up."""

    inputs: tuple[Tensor, ...]  # a layer, [N,E]
    hidden: tuple[Tensor, ...]  # a layer, [N,D]
    output: Tensor  # [N,D]


class WeightMasks(NamedTuple):
    """DropConnect of one pass: which recurrent weights are kept, scaled up. All rows share them."""

    layers: tuple[Tensor, ...]  # a layer, [G·D,D]

    def select(self, rows: Tensor) -> Self:
        return self


class StackState(NamedTuple):
    """What a stack remembers."""

    parts: State  # (h,) or (h, c), each [N,L,D]
    masks: Masks | None = None  # in training with variational dropout
    weight_masks: WeightMasks | None = None  # in training with dropout of recurrent weights


Levels = tuple[State, ...]  # a state of [N,D] tensors a layer
Weights = tuple[Tensor, ...]  # the recurrent weights of each layer, [G·D,D]


class RecurrentStack(nn.Module):
    """Layers of one direction.   Law: `forward` over T positions equals T times `step` on `enter`."""

    def __init__(self, config: StackConfig, *, input_width: int) -> None:
        super().__init__()
        self.widths = layer_widths(config, first=input_width)
        self.layers = nn.ModuleList(
            Recurrence(config.cell, input_width=each, width=config.width, layer_norm=config.layer_norm)
            for each in self.widths
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
        """The state that begins with these parts, its masks drawn: a pass over a batch begins here."""
        return StackState(parts, self._draw_masks(parts[0][:, 0]), self._draw_weight_masks())

    def forward(self, inputs: Tensor, state: StackState) -> tuple[Tensor, StackState]:
        """[N,T,D] outputs of the top layer and the state after them."""
        levels, weights, after = apart(state.parts), self.weights(state), []
        for number, (layer, connection) in enumerate(self._levels()):
            entering = self._drop(inputs, number, state.masks)
            weight = weights[number] if weights else None
            outputs, final = layer(entering, levels[number], keep=_keep(state.masks, number), weight=weight)
            inputs = connection(inputs, self._disturb(outputs))
            after.append(final)
        return inputs, state._replace(parts=together(after))

    def enter(self, inputs: Tensor, state: StackState) -> Tensor:
        """[N,T,G·D], the inputs' share of the first layer's gates; inputs [N,T,E'] may be the first of its columns."""
        if state.masks is not None:
            inputs = inputs * state.masks.inputs[0][:, None, : inputs.shape[-1]]
        return self.first.project(inputs)

    def entering(self, state: StackState, *, start: int) -> Callable[[Tensor], Tensor]:
        """What gives [N,G·D] of the inputs [N,E'] that meet the columns from `start` on, one step after the other."""
        project = self.first.rest(start)
        if state.masks is None:
            return project
        mask = state.masks.inputs[0][:, start:]
        return lambda inputs: project(inputs * mask)

    def weights(self, state: StackState) -> Weights | None:
        """The recurrent weights of a pass for `step`, where they are not the layers' own; a loop asks for them once."""
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
        """[N,D] output of the top layer and the next states, from what enters the first layer's gates [N,G·D].

        Only a dense stack looks at the `inputs` [N,E] that they came from.
        """
        after = []
        for number, (layer, connection) in enumerate(self._levels()):
            gates = entered if number == 0 else layer.project(self._drop(inputs, number, masks))
            weight = weights[number] if weights else None
            outputs, final = layer.step(gates, levels[number], keep=_keep(masks, number), weight=weight)
            inputs = connection(inputs, self._disturb(outputs))
            after.append(final)
        return inputs, tuple(after)

    def leave(self, outputs: Tensor, state: StackState) -> Tensor:
        """What is given out [N,T,D], dropped as the layers are."""
        if state.masks is not None:
            return outputs * state.masks.output[:, None]
        return F.dropout(outputs, self.config.dropout if not self.config.variational else 0.0, self.training)

    def _draw_masks(self, rows: Tensor) -> Masks | None:
        """Of variational dropout, for rows [N,...]."""
        width, dropout = self.config.width, self.config.dropout
        if not (self.training and self.config.variational and dropout):
            return None
        inputs = tuple(kept(rows, width=each, dropout=dropout) for each in self.widths)
        hidden = tuple(kept(rows, width=width, dropout=dropout) for _ in self.widths)
        return Masks(inputs, hidden, kept(rows, width=width, dropout=dropout))

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
        """What a layer reads of its inputs [N,E] or [N,T,E]; embeddings were dropped where they were made."""
        if masks is not None:
            return inputs * (masks.inputs[number] if inputs.dim() == 2 else masks.inputs[number][:, None])
        if number == 0 or self.config.variational:
            return inputs
        return F.dropout(inputs, self.config.dropout, self.training)

    def _disturb(self, outputs: Tensor) -> Tensor:
        return disturbed(outputs, noise=self.config.noise if self.training else 0.0)


def layer_widths(config: StackConfig, *, first: int) -> list[int]:
    """How wide the inputs of each layer are."""
    return [
        input_width(config.connection, layer=layer, first=first, width=config.width) for layer in range(config.layers)
    ]


def connections(config: StackConfig) -> Iterator[Connection]:
    """What stands above each layer."""
    for layer in range(config.layers):
        yield Connection(config.connection, layer=layer, layers=config.layers, width=config.width)


def kept(like: Tensor, *, width: int, dropout: float) -> Tensor:
    """[N,width] of 1 / (1 − dropout), and 0 with that probability: what one mask keeps of each row of [N,...]."""
    return F.dropout(like.new_ones(like.shape[0], width), dropout)


def disturbed(values: Tensor, *, noise: float) -> Tensor:
    """`values` with Gaussian noise of that standard deviation."""
    return values + noise * torch.randn_like(values) if noise else values


def apart(parts: State) -> Levels:
    """The state of each layer, from parts [N,L,D]."""
    return tuple(zip(*(part.unbind(1) for part in parts), strict=True))


def together(levels: Sequence[State]) -> State:
    """The parts [N,L,D] of the states of all layers."""
    return tuple(torch.stack(parts, dim=1) for parts in zip(*levels, strict=True))


def _keep(masks: Masks | None, number: int) -> Tensor | None:
    return None if masks is None else masks.hidden[number]
