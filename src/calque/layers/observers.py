"""Observers of attention weights and of states, and interventions that change attention weights.

Letters: B rows of attention weights, H heads, Q queries, S keys, N rows of states, T positions, D width, G gates.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from calque.native.operations import is_available, is_usable

ChangeWeights = Callable[[Tensor], Tensor]
"""A function from attention weights [B,H,Q,S] to the weights to use instead."""


@runtime_checkable
class AttentionObserver(Protocol):
    """An object that is called with the attention weights of every attention layer."""

    def attention(self, layer: str, weights: Tensor) -> None:
        """Called with a layer's name in the model and its weights [B,H,Q,S], which must not be modified.

        In attention over the source, rows are sentences and the queries of a sentence's K hypotheses follow each other,
        Q = K·T. In self-attention, rows are sentences in an encoder and hypotheses in a decoder.
        """
        ...


class AttentionLayer(nn.Module):
    """A layer whose attention weights can be observed and changed.

    If they are neither observed nor changed, a fused kernel may compute attention without returning them.
    """

    observer: Callable[[Tensor], None] | None = None
    intervention: ChangeWeights | None = None
    has_native = False
    """Whether `calque.native` has a C kernel that can compute the layer in decoding on a CPU."""
    uses_native = False
    in_float64 = False
    """Whether scores and sums are computed in float64, so that padding does not change their rounding (see `int8`)."""

    def use_native(self) -> None:
        """Lets the layer use a C kernel of `calque.native` for decoding on a CPU, if it has one that is compiled."""
        self.uses_native = self.has_native and is_available()

    def computes_natively(self, queries: Tensor) -> bool:
        """Whether the C kernel for decoding on a CPU (see `use_native`) will compute the attention of `queries`.

        It does so only in evaluation mode, without gradients, for float32 on a CPU, and if no weights are observed.
        """
        return self.uses_native and not self.training and not self.shows_weights and is_usable(queries)

    def wide(self, values: Tensor) -> Tensor:
        """The values to compute attention with: if `in_float64` is set, contiguous in float64; otherwise unchanged."""
        return values.to(torch.float64, memory_format=torch.contiguous_format) if self.in_float64 else values

    def wide_memory(self, values: Tensor) -> Tensor:
        """The keys or values to store: as `wide` returns them, or unchanged if the layer uses a C kernel."""
        return values if self.uses_native else self.wide(values)

    @property
    def shows_weights(self) -> bool:
        """Whether attention weights are observed or changed, so that no fused kernel may compute them implicitly."""
        return self.observer is not None or self.intervention is not None

    def changed(self, weights: Tensor) -> Tensor:
        """The attention weights [B,H,Q,S], changed by the intervention if there is one."""
        return weights if self.intervention is None else self.intervention(weights)

    def observed(self, weights: Tensor) -> Tensor:
        """The attention weights as `changed` returns them; the observer, if there is one, is called with them."""
        weights = self.changed(weights)
        if self.observer is not None:
            self.observer(weights)
        return weights


class RecurrentStep(NamedTuple):
    """One time step of a recurrent layer: the inputs of the gates, and the states before and after the step."""

    projected: Tensor  # [N,G·D], the inputs' share of the gates
    before: tuple[Tensor, ...]  # (h,) or (h, c), each [N,D]
    after: tuple[Tensor, ...]
    recurrent: Tensor | None = None  # [N,G·D], the state's share of the gates, where more than the state enters it


class StateLayer(nn.Module):
    """A layer whose states can be observed.

    The observer of a recurrent layer is called at every time step, that of any other layer once for all positions.
    """

    state_observer: Callable[[RecurrentStep | Tensor], None] | None = None

    def observed_states(self, outputs: Tensor) -> Tensor:
        """Returns the `outputs` [N,T,D] unchanged, after calling the observer with them if there is one."""
        if self.state_observer is not None:
            self.state_observer(outputs)
        return outputs


def attention_layers(model: nn.Module) -> dict[str, AttentionLayer]:
    """The layers with attention weights, by their names in the model, such as decoder.blocks.0.cross_attention."""
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, AttentionLayer)}


@contextmanager
def observe_attention(model: nn.Module, observer: AttentionObserver) -> Iterator[None]:
    """A context in which every attention layer calls the observer with its weights, each time it computes them."""
    layers = attention_layers(model)
    previous = {name: layer.observer for name, layer in layers.items()}
    for name, layer in layers.items():
        layer.observer = partial(observer.attention, name)
    try:
        yield
    finally:
        for name, layer in layers.items():
            layer.observer = previous[name]


@contextmanager
def change_attention(model: nn.Module, layer: str, change: ChangeWeights) -> Iterator[None]:
    """A context in which the layer of this name uses `change(weights)` instead of its own attention weights."""
    layers = attention_layers(model)
    if layer not in layers:
        names = ", ".join(layers) or "none"
        raise ValueError(f"the model has no attention layer {layer!r}; its attention layers: {names}")
    previous, layers[layer].intervention = layers[layer].intervention, change
    try:
        yield
    finally:
        layers[layer].intervention = previous
