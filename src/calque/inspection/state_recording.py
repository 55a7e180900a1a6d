"""Records the states of all layers at all positions, in a forward pass with gradients.

A recurrent layer is computed step by step while it is recorded, so that each of its states is a node of autograd's
graph. Any other layer has one node for all positions; the gradient with respect to a position is exact there too.

Letters: B sentences, S source, T target, P positions, D width.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from calque.errors import ConfigError
from calque.layers.observers import RecurrentStep, StateLayer
from calque.layers.recurrent import Recurrence
from calque.models.cho import ChoDecoder
from calque.models.hidden_markov import HiddenMarkovTagger
from calque.models.language_model import LanguageModel
from calque.models.model import Model
from calque.models.ngram import NgramNetwork
from calque.models.recurrent import RecurrentEncoder
from calque.models.tagger import TaggerModel
from calque.tensors import map_rows, reverse_within

Side = Literal["encoder", "decoder", "network"]
Direction = Literal["forward", "backward"]
StateName = Literal["embedding", "output", "hidden", "cell"]

RECURRENT = (Recurrence, ChoDecoder)


class Place(NamedTuple):
    """A layer of a model whose states are recorded."""

    name: str  # in the model, such as decoder.stack.layers.0
    side: Side
    layer: int  # from 1; 0 for the embeddings
    direction: Direction | None  # of a recurrent layer
    is_reversed: bool = False  # whether the encoder reads the source from its end, the end mark still last


@dataclass
class Recorded:
    """What a layer computed in one pass: the steps of a recurrent layer, or the outputs of any other."""

    place: Place
    module: nn.Module
    steps: list[RecurrentStep] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)  # [B,P,D] each; one per pass

    def states(self) -> dict[StateName, list[Tensor]]:
        """The states by name: of a recurrent layer, one tensor [B,D] per step; of others, one tensor [B,P,D]."""
        if self.steps:
            names: tuple[StateName, ...] = ("hidden", "cell")
            parts = zip(*(step.after for step in self.steps), strict=True)
            return dict(zip(names, map(list, parts), strict=False))
        if not self.outputs:
            return {}
        return {"output" if self.place.layer else "embedding": [_single(self.outputs)]}


class Recording(NamedTuple):
    """The states recorded in one forward pass, for all layers of a model."""

    layers: list[Recorded]

    def detached(self) -> list[Recorded]:
        """The recorded states, detached from autograd's graph."""
        return [
            Recorded(
                layer.place,
                layer.module,
                [map_rows(Tensor.detach, step) for step in layer.steps],
                [outputs.detach() for outputs in layer.outputs],
            )
            for layer in self.layers
        ]


def _single(outputs: list[Tensor]) -> Tensor:
    (tensor,) = outputs
    return tensor


def state_places(model: nn.Module) -> list[tuple[Place, nn.Module]]:
    """The embeddings and layers of a model whose states can be recorded, from the source to the output."""
    return [item for side, part in _sides(model) for item in _places(side, part)]


def _sides(model: nn.Module) -> list[tuple[Side, nn.Module]]:
    match model:
        case Model():
            return [("encoder", model.encoder), ("decoder", model.decoder)]
        case LanguageModel() if isinstance(model.network, NgramNetwork):
            raise ConfigError(
                "an n-gram model has neither layers nor gradients; use `calque inspect` with a text instead"
            )
        case LanguageModel():
            return [("network", model.network)]
        case TaggerModel():
            return [("encoder", model.encoder)]
        case HiddenMarkovTagger():
            raise ConfigError(
                "a hidden Markov tagger has neither layers nor gradients; use `calque inspect` with a sentence instead"
            )
        case _:
            raise TypeError(f"{type(model).__name__} is not a model of any task of Calque")


def _places(side: Side, part: nn.Module) -> Iterator[tuple[Place, nn.Module]]:
    embedding = part.get_submodule("embedding")
    yield Place(f"{side}.embedding", side, 0, None), embedding
    if isinstance(part, RecurrentEncoder):
        for number, directions in enumerate(part.layers):
            assert isinstance(directions, nn.ModuleList)
            for index, layer in enumerate(directions):
                direction: Direction = "backward" if index else "forward"
                name = f"{side}.layers.{number}.{index}"
                yield Place(name, side, number + 1, direction, part.config.reverse), layer
        return
    number = 0
    for name, layer in part.named_modules():
        if isinstance(layer, StateLayer) and not name.startswith("inputs."):
            number += 1
            is_recurrent = isinstance(layer, RECURRENT)
            yield Place(f"{side}.{name}".rstrip("."), side, number, "forward" if is_recurrent else None), layer


@contextmanager
def record_states(model: nn.Module) -> Iterator[Recording]:
    """A context in which the states of all layers are recorded, for a single forward pass."""
    recording = Recording([Recorded(place, module) for place, module in state_places(model)])
    with ExitStack() as stack:
        for recorded in recording.layers:
            stack.enter_context(_observed(recorded))
        yield recording


@contextmanager
def _observed(recorded: Recorded) -> Iterator[None]:
    module = recorded.module
    if not recorded.place.layer:
        hook = module.register_forward_hook(lambda _module, _inputs, outputs: recorded.outputs.append(outputs))
        try:
            yield
        finally:
            hook.remove()
        return
    assert isinstance(module, StateLayer)
    previous, module.state_observer = module.state_observer, partial(_record, recorded)
    try:
        yield
    finally:
        module.state_observer = previous


def _record(recorded: Recorded, states: RecurrentStep | Tensor) -> None:
    if isinstance(states, Tensor):
        recorded.outputs.append(states)
    else:
        recorded.steps.append(states)


def by_position(values: Tensor, place: Place, *, lengths: Tensor) -> Tensor:
    """Puts values [B,P], given in the order in which a layer reads the text, into the order of the text."""
    if place.direction == "backward":
        values = reverse_within(values, lengths)
    return reverse_within(values, lengths - 1) if place.is_reversed else values


def reading_order(place: Place, *, lengths: Tensor, size: int) -> Tensor:
    """[B,P], the step, from 0, in which a layer reads each position of the text."""
    steps = torch.arange(size, device=lengths.device)[None].expand(len(lengths), size)
    return by_position(steps, place, lengths=lengths)
