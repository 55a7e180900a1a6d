"""Moved attention: all attention is put on one source piece while one target piece is predicted."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.engine.decoding import ChangeAttention
from calque.errors import ConfigError
from calque.inspection.attention_maps import kind_of
from calque.layers.observers import attention_layers
from calque.models.model import Model


class Move(NamedTuple):
    """A change of attention: while target piece `target` is predicted, all attention is on source piece `source`.

    Pieces are counted from 1.
    """

    target: int  # the piece that is predicted then
    source: int  # the piece that is attended to; one more than there are is the end mark

    @classmethod
    def parse(cls, text: str) -> "Move":
        """Parses TARGET:SOURCE: `3:5` moves the attention of target piece 3 to source piece 5, counted from 1."""
        target, colon, source = text.partition(":")
        if not colon or not all(part.isascii() and part.isdigit() and int(part) > 0 for part in (target, source)):
            raise ConfigError(
                f"{text!r} is not a move of attention: give two piece numbers from 1, TARGET:SOURCE, e.g. 3:5"
            )
        return cls(int(target), int(source))


class WhatIf(NamedTuple):
    """The changes that a user made to see their effect on a translation; none by default."""

    prefix: str = ""  # the translation had to begin like this
    forbidden: tuple[str, ...] = ()  # words that it must not contain
    moves: tuple[Move, ...] = ()  # of attention

    def __bool__(self) -> bool:
        return bool(self.prefix or self.forbidden or self.moves)


class MovedAttention:
    """An intervention in decoding that moves attention; it also affects the prediction of later pieces."""

    def __init__(self, moves: Sequence[Move], *, model: Model, source_pieces: int) -> None:
        """`moves` say to which source piece a target piece attends; `source_pieces` is their number with EOS."""
        self.sources = {move.target: move.source for move in moves}
        self.layers = [name for name in attention_layers(model) if kind_of(name) == "source"]
        self._current: int | None = None  # the source position to attend to in the step that is being computed
        if moves and not self.layers:
            raise ConfigError("attention cannot be moved: this model has no attention over the source")
        if len(self.sources) < len(moves):
            raise ConfigError(
                "a target piece is named in several moves; for each target piece, attention can be moved only once"
            )
        for move in moves:
            if move.source > source_pieces:
                raise ConfigError(
                    f"attention cannot be moved to source piece {move.source}: the source has only {source_pieces} "
                    "pieces, end mark included"
                )

    @property
    def interventions(self) -> list[Any]:
        """The interventions to pass to the translation engine; none if there are no moves."""
        return [self, *self.changes] if self.sources else []

    @property
    def changes(self) -> list[ChangeAttention]:
        return [ChangeAttention(layer, self.change) for layer in self.layers]

    def state(self, state: Any, *, length: int) -> Any:
        """Called before token `length` is predicted: activates its `Move`, if any. Returns the state unchanged."""
        self._current = self.sources.get(length)
        return state

    def log_probs(self, log_probs: Tensor, *, length: int) -> Tensor:
        """Called after token `length` is predicted: ends its `Move`. Returns the log-probabilities unchanged."""
        self._current = None
        return log_probs

    def change(self, weights: Tensor) -> Tensor:
        """The attention weights [B,H,Q,S]; if a `Move` names the predicted piece, all weight is on one position."""
        if self._current is None:
            return weights
        moved = torch.zeros_like(weights)
        moved[..., self._current - 1] = 1
        return moved
