"""Recurrent encoder, and the decoder that starts from its last state alone.

Sutskever et al. 2014, "Sequence to Sequence Learning with Neural Networks", §2; the bidirectional encoder is
Schuster and Paliwal's (1997).

Letters: B sentences, K beams, N = B·K hypotheses, S source, T target, E embedding, D width, L layers.
"""

from typing import Literal, NamedTuple, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from calque.config import Config
from calque.layers.recurrent import CellName, Recurrence, RecurrentStack, state_parts
from calque.models.bridge import Bridge, BridgeName
from calque.models.seam import Decoder, Encoder, Memory, MemoryShape, Output
from calque.tensors import Padded, at_last, reverse_within


class RecurrentEncoderConfig(Config):
    """A stack of recurrent layers, read in one direction or both."""

    kind: Literal["recurrent"] = "recurrent"
    cell: CellName = "lstm"
    """rnn (tanh), lstm, gru (cuDNN's form) or gru-original (Cho 2014: reset before the product; no fused kernel)."""
    layers: int = Field(default=2, ge=1, le=256)
    """How many recurrent layers stand on each other."""
    width: int = Field(default=256, ge=1)
    """Width of the memory; a bidirectional encoder gives each direction half of it."""
    embedding: int = Field(default=256, ge=1)
    """Width of the word vectors."""
    bidirectional: bool = True
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """On the embeddings and between layers."""

    @model_validator(mode="after")
    def _even(self) -> Self:
        if self.bidirectional and self.width % 2:
            raise ValueError(f"width {self.width} must be even: each direction gets half")
        return self


class RecurrentEncoder(Encoder):
    """Reads the source left to right, and right to left where it is bidirectional; layers see both directions."""

    def __init__(self, config: RecurrentEncoderConfig, *, vocabulary_size: int) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary_size, width=config.embedding, dropout=config.dropout)
        directions = 2 if config.bidirectional else 1
        self.layers = nn.ModuleList(
            nn.ModuleList(
                Recurrence(
                    config.cell,
                    input_width=config.embedding if layer == 0 else config.width,
                    width=config.width // directions,
                )
                for _ in range(directions)
            )
            for layer in range(config.layers)
        )
        self.dropout = config.dropout
        self.shape = MemoryShape(config.width, config.layers, state_parts(config.cell), config.embedding)

    def forward(self, source: Padded) -> Memory:
        inputs = self.embedding(source.values)
        values, finals = inputs, []
        for number, directions in enumerate(self.layers):
            assert isinstance(directions, nn.ModuleList)
            if number > 0:
                values = F.dropout(values, self.dropout, self.training)
            read = [_read(layer, values, source.lengths, backward=place == 1) for place, layer in enumerate(directions)]
            values = torch.cat([outputs for outputs, _ in read], dim=-1)
            finals.append([torch.cat(parts, dim=-1) for parts in zip(*(final for _, final in read), strict=True)])
        final = tuple(torch.stack(parts, dim=1) for parts in zip(*finals, strict=True))
        return Memory(values, source.mask, inputs, source.values, final)


class RecurrentDecoderConfig(Config):
    """A recurrent decoder that knows the source by its first state only."""

    kind: Literal["recurrent"] = "recurrent"
    cell: CellName = "lstm"
    """rnn, lstm, gru or gru-original."""
    layers: int = Field(default=2, ge=1, le=256)
    """How many recurrent layers stand on each other."""
    width: int = Field(default=256, ge=1)
    embedding: int = Field(default=256, ge=1)
    """Width of the word vectors."""
    bridge: BridgeName = "copy"
    """How the encoder's last states become the first here: copy, tanh (a layer), backward (Bahdanau's) or zero."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """On the embeddings, between layers and on the output."""


class RecurrentContext(NamedTuple):
    first: tuple[Tensor, ...]  # (h,) or (h, c), each [B,L,D]


RecurrentState = tuple[Tensor, ...]  # (h,) or (h, c), each [N,L,D]


class RecurrentDecoder(Decoder[RecurrentState, RecurrentContext]):
    """p(y | x) = Π p(yₜ | v, y₁…yₜ₋₁): the source is the fixed vector v the decoder starts from (§2)."""

    def __init__(self, config: RecurrentDecoderConfig, *, vocabulary_size: int, memory: MemoryShape) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary_size, width=config.embedding, dropout=config.dropout)
        self.bridge = Bridge(config.bridge, cell=config.cell, memory=memory, layers=config.layers, width=config.width)
        self.stack = RecurrentStack(
            config.cell,
            input_width=config.embedding,
            width=config.width,
            layers=config.layers,
            dropout=config.dropout,
        )
        self.dropout = config.dropout
        self.width = config.width

    def prepare(self, memory: Memory) -> RecurrentContext:
        return RecurrentContext(self.bridge(memory))

    def start(self, context: RecurrentContext) -> RecurrentState:
        return context.first

    def forward(
        self, tokens: Tensor, state: RecurrentState, context: RecurrentContext, *, attention: bool = False
    ) -> tuple[Output, RecurrentState]:
        hidden, state = self.stack(self.embedding(tokens), state)
        return Output(F.dropout(hidden, self.dropout, self.training)), state


class WordEmbedding(nn.Module):
    """A vector a token, dropped out."""

    def __init__(self, vocabulary_size: int, *, width: int, dropout: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary_size, width))
        self.dropout = dropout
        nn.init.uniform_(self.weight, -0.1, 0.1)

    def forward(self, tokens: Tensor) -> Tensor:
        """[N,T,E] from [N,T]."""
        return F.dropout(F.embedding(tokens, self.weight), self.dropout, self.training)


def _read(layer: nn.Module, inputs: Tensor, lengths: Tensor, *, backward: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
    """[B,S,D] outputs in source order, and the state after the last token read (the first one, when backward).

    Rows are padded behind their end and reversed within their length, so padding is only ever read after
    everything that counts.
    """
    assert isinstance(layer, Recurrence)
    lengths_here = lengths.to(inputs.device, non_blocking=True)
    ordered = reverse_within(inputs, lengths_here) if backward else inputs
    if layer.cell == "lstm":  # outputs hold h alone; the cell at each row's end comes from the packed kernel
        outputs, final = _packed(layer, ordered, lengths)
    else:
        outputs, _ = layer(ordered, layer.zero_state(inputs.shape[0], like=inputs))
        final = (at_last(outputs, lengths_here),)
    return (reverse_within(outputs, lengths_here) if backward else outputs), final


def _packed(layer: Recurrence, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
    outputs, final = layer.kernel(packed)
    padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=inputs.shape[1])
    return padded, tuple(part[0] for part in final)
