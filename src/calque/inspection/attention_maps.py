"""Attention maps: the weights of every layer and head while a model reads a source and a given target.

Letters: H heads, Q queries, S source pieces, T target pieces, V vocabulary.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from calque.layers.observers import observe_attention
from calque.layers.output import wide
from calque.models.interfaces import Output
from calque.models.model import Model
from calque.objectives.decoding_step import pad_source
from calque.text import BOS

Kind = Literal["source", "encoder", "decoder"]
"""What attends to what: target pieces to source pieces (source), source pieces to source pieces (encoder), or target
pieces to earlier target pieces (decoder)."""

MEAN = "mean"
"""The name of the attention map that a decoder outputs itself, without heads.

In recurrent decoders, it has the weights of the only attention layer; in a Transformer, the mean over the heads of one
layer (`model.decoder.attention_layer`); in ConvS2S, the mean over the layers."""


class AttentionMap(NamedTuple):
    """The attention weights of one layer, for all its heads."""

    name: str  # of the layer in the model, or MEAN
    kind: Kind
    layer: int | None  # its number among the layers of its kind, from 1; None for the mean
    weights: Tensor  # [H,Q,S] on the CPU

    @property
    def heads(self) -> int:
        return self.weights.shape[0]


class Reading(NamedTuple):
    """What a model computes while it reads a source and a given target."""

    log_probs: Tensor  # [T,V'] of the next piece at each position, on the CPU
    copying: list[float] | None  # the probability of copying rather than generating, at each position
    attention: Tensor | None  # [T,S], the model's mean
    maps: list[AttentionMap]  # the mean first


class AttentionRecorder:
    """An observer that records the attention weights of all layers, for one sentence."""

    def __init__(self) -> None:
        self.weights: dict[str, list[Tensor]] = {}

    def attention(self, layer: str, weights: Tensor) -> None:
        """Records the weights [B,H,Q,S] of a layer.

        A layer calls this once or, if it reads token by token, at every step.
        """
        self.weights.setdefault(layer, []).append(wide(weights[0].detach()).cpu())

    def maps(self) -> list[AttentionMap]:
        """One map per layer that computed attention. Maps over the source come first."""
        numbers: dict[Kind, int] = {}
        maps = []
        for name, parts in self.weights.items():
            kind = kind_of(name)
            numbers[kind] = numbers.get(kind, 0) + 1
            widest = max(part.shape[2] for part in parts)  # step by step, self-attention sees one piece more each time
            padded = [torch.nn.functional.pad(part, (0, widest - part.shape[2])) for part in parts]
            maps.append(AttentionMap(name, kind, numbers[kind], torch.cat(padded, dim=1)))
        order: tuple[Kind, ...] = ("source", "encoder", "decoder")
        return sorted(maps, key=lambda item: order.index(item.kind))


def mean_weights(maps: Sequence[AttentionMap]) -> Tensor:
    """The mean weights of maps of the same shape, averaged over the heads of each map and then over the maps."""
    return torch.stack([item.weights.mean(dim=0) for item in maps]).mean(dim=0)


def kind_of(layer: str) -> Kind:
    """The kind of an attention layer (source, encoder or decoder), given its name in the model."""
    if layer.startswith("encoder."):
        return "encoder"
    return "decoder" if "self_attention" in layer else "source"


@torch.inference_mode()
def read(
    model: Model, source: Sequence[int], target: Sequence[int], *, before: Callable[[int], None] | None = None
) -> Reading:
    """Reads a source and a target under teacher forcing; `target` ends with its end mark unless it was truncated.

    `before` is called before each piece is predicted, with the number of the piece, counted from 1. Without `before`,
    models that can predict all pieces in parallel do so.
    """
    device = next(model.parameters()).device
    recorder = AttentionRecorder()
    inputs = torch.tensor([[BOS, *target[:-1]]], device=device)
    outputs: list[Output] = []
    chunks = [inputs] if before is None else [inputs[:, place : place + 1] for place in range(len(target))]
    with model.evaluating(), observe_attention(model, recorder):
        context = model.prepare(pad_source([source]).to(device))
        state = model.start(context)
        for number, chunk in enumerate(chunks, start=1):
            if before is not None:
                before(number)
            output, state = model.read(chunk, state, context, attention=True)
            outputs.append(output)
        log_probs = torch.cat([wide(model.log_probs(output, context))[0].cpu() for output in outputs])
    attention = _joined([output.attention for output in outputs])
    maps = [] if attention is None else [AttentionMap(MEAN, "source", None, attention[None])]
    gate = _joined([output.gate for output in outputs])
    copying = None if gate is None else torch.sigmoid(-gate).tolist()
    return Reading(log_probs, copying, attention, maps + recorder.maps())


def _joined(parts: Sequence[Tensor | None]) -> Tensor | None:
    """Joins consecutive parts [1,T,…] of one sentence into one tensor [T,…] on the CPU; None if all parts are None."""
    present = [wide(part)[0].cpu() for part in parts if part is not None]
    return torch.cat(present) if present else None
