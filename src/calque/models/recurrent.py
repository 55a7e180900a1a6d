"""Recurrent encoder, and the decoder that starts from its last state alone.

Sutskever et al. 2014, "Sequence to Sequence Learning with Neural Networks", §2; the bidirectional encoder is
Schuster and Paliwal's (1997).

Letters: B sentences, K beams, N = B·K hypotheses, S source, T target, E embedding, D width, L layers.
"""

from typing import Any, Literal, NamedTuple, Self

import torch
from pydantic import model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.bounds import Width
from calque.layers.connections import Connection
from calque.layers.embedding import known
from calque.layers.recurrent import Recurrence, State, state_parts
from calque.layers.stack import RecurrentStack, StackConfig, StackState, connections, disturbed, kept, layer_widths
from calque.models.bridge import Bridge, BridgeName
from calque.models.interfaces import Decoder, Encoder, Inputs, Memory, MemoryShape, Output
from calque.tensors import at_last, reverse_within


class RecurrentEncoderConfig(StackConfig):
    """A stack of recurrent layers, read in one direction or both.

    Its width is the memory's: where a layer has two directions, each gets half of it.
    """

    kind: Literal["recurrent"] = "recurrent"
    embedding: Width = 256
    """Width of the word vectors."""
    bidirectional: bool | Literal["first"] = True
    """Every layer reads both ways, none, or the first only (Wu 2016, §3.2); each direction gets half the width."""
    reverse: bool = False
    """Read the source from its end, the end mark still last (Sutskever 2014, §3.3)."""

    @model_validator(mode="after")
    def _even(self) -> Self:
        if self.bidirectional and self.width % 2:
            raise ValueError(f"width {self.width} must be even: each direction gets half")
        return self

    def directions(self, layer: int) -> int:
        """How many ways a layer reads."""
        return 2 if self.bidirectional is True or (self.bidirectional == "first" and layer == 0) else 1


class RecurrentEncoder(Encoder):
    """Reads the source left to right, and right to left where it is bidirectional; layers see both directions."""

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
        read = self.read(source)
        inputs = self.embedding(read.values)
        ends = read.lengths.to(inputs.device, non_blocking=True)
        values = reverse_within(inputs, ends - 1) if self.config.reverse else inputs
        finals = []
        for number, (directions, connection) in enumerate(zip(self.layers, self.connections, strict=True)):
            assert isinstance(directions, nn.ModuleList) and isinstance(connection, Connection)
            outputs, final = self._layer(directions, self._drop(values, number), read.lengths)
            values = connection(values, disturbed(outputs, noise=self.config.noise if self.training else 0.0))
            finals.append(final)
        if self.config.reverse:
            values = reverse_within(values, ends - 1)
        last = tuple(torch.stack(parts, dim=1) for parts in zip(*finals, strict=True))
        return Memory(values, read.mask, inputs, read.tokens, last)

    def _layer(self, directions: nn.ModuleList, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, list[Tensor]]:
        """[B,S,D] outputs and the last states [B,D], both directions side by side."""
        read = [
            _read(
                layer,
                inputs,
                lengths,
                backward=place == 1,
                keep=self._keep(layer, inputs),
                weight=self._weight(layer),
            )
            for place, layer in enumerate(directions)
            if isinstance(layer, Recurrence)
        ]
        outputs = torch.cat([each for each, _ in read], dim=-1)
        return outputs, [torch.cat(parts, dim=-1) for parts in zip(*(final for _, final in read), strict=True)]

    def _drop(self, values: Tensor, number: int) -> Tensor:
        """What a layer reads of [B,S,E]; embeddings are dropped where they are made, unless dropout is variational."""
        if self._variational:
            return values * kept(values, width=values.shape[-1], dropout=self._variational)[:, None]
        return values if number == 0 else F.dropout(values, self.config.dropout, self.training)

    def _keep(self, layer: Recurrence, inputs: Tensor) -> Tensor | None:
        return kept(inputs, width=layer.width, dropout=self._variational) if self._variational else None

    def _weight(self, layer: Recurrence) -> Tensor | None:
        """The recurrent weights of this pass, where some are dropped."""
        dropout = self.config.weight_dropout if self.training else 0.0
        return layer.dropped(layer.weight_mask(dropout=dropout)) if dropout else None

    @property
    def _variational(self) -> float:
        return self.config.dropout if self.config.variational and self.training else 0.0


class RecurrentDecoderConfig(StackConfig):
    """A recurrent decoder that knows the source by its first state only."""

    kind: Literal["recurrent"] = "recurrent"
    embedding: Width = 256
    """Width of the word vectors."""
    bridge: BridgeName = "copy"
    """How the encoder's last states become the first here: copy, tanh (a layer), backward (Bahdanau's) or zero."""


class RecurrentContext(NamedTuple):
    first: State  # (h,) or (h, c), each [B,L,D]


class RecurrentDecoder(Decoder[StackState, RecurrentContext]):
    """p(y | x) = Π p(yₜ | v, y₁…yₜ₋₁): the source is the fixed vector v the decoder starts from (§2)."""

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
    """A vector per token, dropped out.

    With `type_dropout`, a call in training also drops whole rows of the matrix, and so all occurrences of a word
    together (Gal and Ghahramani 2016, §4.2; Merity 2018, §4.3).
    """

    def __init__(self, vocabulary_size: int, *, width: int, dropout: float, type_dropout: float = 0.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary_size, width))
        self.dropout = dropout
        self.type_dropout = type_dropout
        nn.init.uniform_(self.weight, -0.1, 0.1)

    def forward(self, tokens: Tensor) -> Tensor:
        """[N,T,E] from [N,T]."""
        tokens = known(tokens, size=len(self.weight))
        vectors = F.embedding(tokens, self.weight)
        if self.training and self.type_dropout:
            types = F.dropout(vectors.new_ones(len(self.weight)), self.type_dropout)  # [V], 1 / (1 − p) or 0
            vectors = vectors * types[tokens][..., None]
        return F.dropout(vectors, self.dropout, self.training)


def word_embedding(vocabulary_size: int, *, width: int, dropout: float, inputs: Inputs | None) -> nn.Module:
    """What an encoder does with token ids, or with the vectors of its inputs: these are only dropped out."""
    return WordEmbedding(vocabulary_size, width=width, dropout=dropout) if inputs is None else nn.Dropout(dropout)


def _read(
    layer: Recurrence,
    inputs: Tensor,
    lengths: Tensor,
    *,
    backward: bool,
    keep: Tensor | None,
    weight: Tensor | None,
) -> tuple[Tensor, State]:
    """[B,S,D] outputs in source order, and the state after the last token read (the first one, when backward).

    Rows are padded behind their end and reversed within their length, so padding is only ever read after
    everything that counts.
    """
    lengths_here = lengths.to(inputs.device, non_blocking=True)
    ordered = reverse_within(inputs, lengths_here) if backward else inputs
    zero = layer.zero_state(inputs.shape[0], like=inputs)
    if not layer.is_fused(keep):
        outputs, final = layer.unrolled(ordered, zero, keep=keep, weight=weight, lengths=lengths_here)
    elif layer.cell == "lstm":  # outputs hold h alone; the cell at each row's end comes from the packed kernel
        outputs, final = layer.packed(ordered, lengths, weight=weight)
    else:
        outputs, _ = layer(ordered, zero, weight=weight)
        final = (at_last(outputs, lengths_here),)
    return (reverse_within(outputs, lengths_here) if backward else outputs), final
