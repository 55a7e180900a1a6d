"""The recurrent encoder, and the decoder whose only access to the source is the encoder's last state.

Sutskever et al. 2014, "Sequence to Sequence Learning with Neural Networks", §2; the bidirectional encoder is
Schuster and Paliwal's (1997).

Letters: B sentences, K beams, N = B·K hypotheses, S source, T target, E embedding, D width, L layers.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self

import torch
from pydantic import model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.bounds import Width
from calque.layers.connections import Connection
from calque.layers.dropout import Dropout, dropout, scaled_mask
from calque.layers.embedding import known
from calque.layers.padded_lstm import is_read_with_padding, padded_lstm
from calque.layers.recurrent import Recurrence, State, state_parts
from calque.layers.stack import (
    RecurrentStack,
    StackConfig,
    StackState,
    add_noise,
    connections,
    dropout_mask,
    layer_widths,
)
from calque.models.bridge import Bridge, BridgeName
from calque.models.interfaces import Decoder, Encoder, Inputs, Memory, MemoryShape, Output, Read
from calque.tensors import at_last, reverse_within


class RecurrentEncoderConfig(StackConfig):
    """A stack of recurrent layers, unidirectional or bidirectional.

    The width is that of the memory; in a bidirectional layer, each direction has half of it.
    """

    kind: Literal["recurrent"] = "recurrent"
    embedding: Width = 256
    """Width of the word vectors."""
    bidirectional: bool | Literal["first"] = True
    """Bidirectional layers: true (all), false (none) or "first" (the first only; Wu 2016, §3.2)."""
    reverse: bool = False
    """Reverse the source, except for the end mark, which stays last (Sutskever 2014, §3.3)."""

    @model_validator(mode="after")
    def _even(self) -> Self:
        if self.bidirectional and self.width % 2:
            raise ValueError(f"width {self.width} must be even: each direction gets half")
        return self

    def directions(self, layer: int) -> int:
        """The number of directions of a layer."""
        return 2 if self.bidirectional is True or (self.bidirectional == "first" and layer == 0) else 1


class RecurrentEncoder(Encoder):
    """A stack of recurrent layers over the source; the outputs of both directions of a layer are concatenated."""

    def __init__(
        self, config: RecurrentEncoderConfig, *, vocabulary_size: int = 0, inputs: Inputs | None = None
    ) -> None:
        super().__init__()
        self.inputs = inputs
        width = config.embedding if inputs is None else inputs.width
        self.embedding = word_embedding(
            vocabulary_size, width=config.embedding, dropout=config.embedding_dropout, inputs=inputs
        )
        self.layers = nn.ModuleList(
            nn.ModuleList(
                Recurrence(
                    config.cell,
                    input_width=width,
                    width=config.width // config.directions(layer),
                    layer_norm=config.layer_norm,
                )
                for _ in range(config.directions(layer))
            )
            for layer, width in enumerate(layer_widths(config, first=width))
        )
        self.connections = nn.ModuleList(connections(config))
        self.config = config
        top = config.directions(config.layers - 1)
        self.shape = MemoryShape(config.width, config.layers, state_parts(config.cell), width, top)

    def forward(self, source: Any) -> Memory:
        encoded = self.read(source)
        inputs = self.embedding(encoded.values)
        ends = encoded.device_lengths
        values = reverse_within(inputs, ends - 1) if self.config.reverse else inputs
        finals = []
        for number, (directions, connection) in enumerate(zip(self.layers, self.connections, strict=True)):
            assert isinstance(directions, nn.ModuleList) and isinstance(connection, Connection)
            outputs, final = self._layer(directions, self._drop(values, number), encoded)
            values = connection(values, add_noise(outputs, noise=self.config.noise if self.training else 0.0))
            finals.append(final)
        if self.config.reverse:
            values = reverse_within(values, ends - 1)
        final_state = tuple(torch.stack(parts, dim=1) for parts in zip(*finals, strict=True))
        return Memory(values, encoded.mask, inputs, encoded.tokens, final_state)

    def _layer(self, directions: nn.ModuleList, inputs: Tensor, encoded: Read) -> tuple[Tensor, list[Tensor]]:
        """A layer's outputs [B,S,D] and final state, h or h and c [B,D] each, with all directions concatenated."""
        layers = [layer for layer in directions if isinstance(layer, Recurrence)]
        if self._reads_padding(layers, inputs):
            states = padded_lstm(
                inputs, encoded.device_lengths, [layer.direction(self._weight(layer)) for layer in layers]
            )
            return states.hidden, [torch.cat(parts, dim=-1) for parts in zip(*states.final, strict=True)]
        results = [
            _run_direction(
                layer,
                inputs,
                encoded,
                backward=index == 1,
                keep=self._keep(layer, inputs),
                weight=self._weight(layer),
            )
            for index, layer in enumerate(layers)
        ]
        outputs = torch.cat([output for output, _ in results], dim=-1)
        return outputs, [torch.cat(parts, dim=-1) for parts in zip(*(final for _, final in results), strict=True)]

    def _reads_padding(self, layers: Sequence[Recurrence], inputs: Tensor) -> bool:
        """Whether `padded_lstm` computes all directions of an LSTM layer at once: in training on a GPU."""
        is_fused = all(layer.cell == "lstm" and layer.is_fused(None) for layer in layers) and not self._variational
        return self.training and is_fused and is_read_with_padding(inputs)

    def _drop(self, values: Tensor, number: int) -> Tensor:
        """The inputs [B,S,E] of layer `number` after dropout.

        Without variational dropout, the first layer's inputs are unchanged: the embedding has already applied dropout.
        """
        if self._variational:
            return values * dropout_mask(values, width=values.shape[-1], dropout=self._variational)[:, None]
        return values if number == 0 else dropout(values, self.config.dropout, self.training)

    def _keep(self, layer: Recurrence, inputs: Tensor) -> Tensor | None:
        return dropout_mask(inputs, width=layer.width, dropout=self._variational) if self._variational else None

    def _weight(self, layer: Recurrence) -> Tensor | None:
        """A layer's recurrent weights with a new DropConnect mask; None in evaluation or without weight dropout."""
        dropout = self.config.weight_dropout if self.training else 0.0
        return layer.dropped(layer.weight_mask(dropout=dropout)) if dropout else None

    @property
    def _variational(self) -> float:
        return self.config.dropout if self.config.variational and self.training else 0.0


class RecurrentDecoderConfig(StackConfig):
    """A recurrent decoder whose only access to the source is its initial state."""

    kind: Literal["recurrent"] = "recurrent"
    embedding: Width = 256
    """Width of the word vectors."""
    bridge: BridgeName = "copy"
    """How the initial state is computed from the encoder's final states: copy, tanh, backward (Bahdanau's) or zero."""


class RecurrentContext(NamedTuple):
    first: State  # (h,) or (h, c), each [B,L,D]


class RecurrentDecoder(Decoder[StackState, RecurrentContext]):
    """p(y | x) = Π p(yₜ | v, y₁…yₜ₋₁): the source is represented by the initial state v of the decoder (§2)."""

    has_fixed_state = True
    attends = False

    def __init__(self, config: RecurrentDecoderConfig, *, vocabulary_size: int, memory: MemoryShape) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary_size, width=config.embedding, dropout=config.embedding_dropout)
        self.bridge = Bridge(config.bridge, cell=config.cell, memory=memory, layers=config.layers, width=config.width)
        self.stack = RecurrentStack(config, input_width=config.embedding)
        self.width = config.width

    def prepare(self, memory: Memory) -> RecurrentContext:
        return RecurrentContext(self.bridge(memory))

    def start(self, context: RecurrentContext) -> StackState:
        return self.stack.start(context.first)

    def forward(
        self, tokens: Tensor, state: StackState, context: RecurrentContext, *, attention: bool = False
    ) -> tuple[Output, StackState]:
        hidden, after = self.stack(self.embedding(tokens), state)
        return Output(self.stack.leave(hidden, state)), after


class WordEmbedding(nn.Module):
    """An embedding matrix: one vector per token of the vocabulary, with dropout.

    With `type_dropout`, a call in training also drops whole rows of the matrix, and with them all occurrences of a
    word (Gal and Ghahramani 2016, §4.2; Merity 2018, §4.3).
    """

    def __init__(self, vocabulary_size: int, *, width: int, dropout: float, type_dropout: float = 0.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary_size, width))
        self.dropout = dropout
        self.type_dropout = type_dropout
        nn.init.uniform_(self.weight, -0.1, 0.1)

    def forward(self, tokens: Tensor) -> Tensor:
        """The vectors [N,T,E] of tokens [N,T]."""
        tokens = known(tokens, size=len(self.weight))
        vectors = F.embedding(tokens, self.weight)
        if self.training and self.type_dropout:
            types = scaled_mask(vectors.new_empty(len(self.weight)), self.type_dropout)  # [V], 1 / (1 − p) or 0
            vectors = vectors * types[tokens][..., None]
        return dropout(vectors, self.dropout, self.training)


def word_embedding(vocabulary_size: int, *, width: int, dropout: float, inputs: Inputs | None) -> nn.Module:
    """The embedding layer of an encoder; if `inputs` already compute its vectors, a layer that only applies dropout."""
    return WordEmbedding(vocabulary_size, width=width, dropout=dropout) if inputs is None else Dropout(dropout)


def _run_direction(
    layer: Recurrence,
    inputs: Tensor,
    encoded: Read,
    *,
    backward: bool,
    keep: Tensor | None,
    weight: Tensor | None,
) -> tuple[Tensor, State]:
    """One direction of a recurrent layer: the outputs [B,S,D] in source order, and the final state.

    The final state is the state after the last token or, if `backward`, after the first. Rows are padded at their end
    and reversed within their length, so that padding is read only after all tokens.
    """
    if layer.cell == "lstm" and layer.is_fused(keep):  # its outputs lack the cell at each row's end
        return layer.packed(inputs, encoded.lengths, weight=weight, backward=backward)
    if layer.used_products(keep, weight) is not None and layer.state_observer is None:
        return layer.unrolled_without_padding(inputs, encoded.lengths, backward=backward)
    device_lengths = encoded.device_lengths
    ordered = reverse_within(inputs, device_lengths) if backward else inputs
    zero = layer.zero_state(inputs.shape[0], like=inputs)
    if not layer.is_fused(keep):
        outputs, final = layer.unrolled(ordered, zero, keep=keep, weight=weight, lengths=device_lengths)
    else:
        outputs, _ = layer(ordered, zero, weight=weight)
        final = (at_last(outputs, device_lengths),)
    return (reverse_within(outputs, device_lengths) if backward else outputs), final
