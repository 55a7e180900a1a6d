"""Observers of attention weights, and interventions that change them. Letters: B rows, H heads, Q queries, S keys."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

ChangeWeights = Callable[[Tensor], Tensor]
"""Attention weights [B,H,Q,S] to the weights to use in their place."""


@runtime_checkable
class AttentionObserver(Protocol):
    """Watches attention."""

    def attention(self, layer: str, weights: Tensor) -> None:
        """Called with a layer's name in the model and its weights [B,H,Q,S], which must not be modified.

        In attention over the source, rows are sentences and the queries of a sentence's K hypotheses follow each other,
        Q = K·T. In self-attention, rows are sentences in an encoder and hypotheses in a decoder.
        """
        ...


class AttentionLayer(nn.Module):
    """A layer whose attention weights can be observed and changed; it may compute them only if they are."""

    observer: Callable[[Tensor], None] | None = None
    intervention: ChangeWeights | None = None

    @property
    def shows_weights(self) -> bool:
        """Whether the layer must compute its weights explicitly, not in a fused kernel."""
        return self.observer is not None or self.intervention is not None

    def changed(self, weights: Tensor) -> Tensor:
        """The weights [B,H,Q,S] after an intervention."""
        return weights if self.intervention is None else self.intervention(weights)

    def observed(self, weights: Tensor) -> Tensor:
        """The weights [B,H,Q,S] after an intervention; the observer is called with them."""
        weights = self.changed(weights)
        if self.observer is not None:
            self.observer(weights)
        return weights


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
    """A context in which a layer uses other attention weights than those it computes."""
    layers = attention_layers(model)
    if layer not in layers:
        names = ", ".join(layers) or "none"
        raise ValueError(f"the model has no attention layer {layer!r}; its attention layers: {names}")
    previous, layers[layer].intervention = layers[layer].intervention, change
    try:
        yield
    finally:
        layers[layer].intervention = previous
