"""Saliency: how much each input contributes to each prediction, for models with and without attention.

Letters: S inputs, T predictions, E width of the input vectors, M steps of integration.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from calque.layers.output import wide
from calque.models.model import Model
from calque.objectives.decoding_step import pad_source
from calque.tensors import Padded
from calque.text import BOS

STEPS = 32
"""The default number of points at which integrated gradients are evaluated."""

ONE = torch.ones(1)
"""The only scale of gradient × input: gradients are computed at the input itself."""

Predict = Callable[[int], Iterable[Tensor]]
"""A function that reads a batch of M identical rows and yields the log-probabilities [M] of each of T predictions."""


def gradient_times_input(model: Model, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """Gradient × input [T,S]: eⱼ · ∂ log P(yᵢ) / ∂eⱼ for target piece i and source piece j (Simonyan 2014, Denil 2014).

    eⱼ is the vector that the encoder reads: the embedding, plus the position vector in models that add one. `target`
    ends with its end mark unless it was truncated; S includes the source's end mark.
    """
    return _target_attributions(model, source, target, scales=ONE)


def integrated_gradients(model: Model, source: Sequence[int], target: Sequence[int], *, steps: int = STEPS) -> Tensor:
    """Integrated gradients [T,S] of the source pieces for each target piece (Sundararajan 2017).

    They are the gradient, averaged along the straight line from zero vectors to the source vectors, times the source
    vectors. The attributions of a target piece sum to log P(yᵢ) given the source, minus log P(yᵢ) given zero vectors,
    up to the error of the midpoint rule with `steps` points. The error is largest for models that normalise the vectors
    before they add anything to them: the output of such a model is discontinuous at zero.
    """
    return _target_attributions(model, source, target, scales=midpoints(steps))


def midpoints(steps: int = STEPS) -> Tensor:
    """The scales [M] between 0 and 1 at which integrated gradients are evaluated (midpoint rule)."""
    return (torch.arange(steps) + 0.5) / steps


def attributions(inputs: nn.Module, predict: Predict, *, scales: Tensor) -> Tensor:
    """The attribution [T,S] of each prediction i to each input j: xⱼ · g, where g is the mean gradient over the scales.

    g is the mean over the scales s [M] of ∂ log P(yᵢ | s·x) / ∂(s·xⱼ). x is the output [M,S,E] of the module `inputs`
    (a tensor or a `Padded`), which `predict` must call exactly once.
    """
    vectors: list[Tensor] = []

    def scale(values: Tensor) -> Tensor:
        scaled = values.detach() * scales.to(values)[:, None, None]
        vectors.extend([values.detach()[0], scaled.requires_grad_()])
        return scaled

    means = []
    # cuDNN's recurrent kernels have no backward pass in evaluation mode
    with torch.enable_grad(), _changed_output(inputs, scale), torch.backends.cudnn.flags(enabled=False):
        for log_probs in predict(len(scales)):
            (gradient,) = torch.autograd.grad(log_probs.sum(), vectors[1], retain_graph=True, allow_unused=True)
            means.append(torch.zeros_like(vectors[0]) if gradient is None else gradient.mean(dim=0))
    return wide((torch.stack(means) * vectors[0]).sum(dim=-1)).cpu()


def _target_attributions(model: Model, source: Sequence[int], target: Sequence[int], *, scales: Tensor) -> Tensor:
    """The attributions [T,S] of target pieces to source pieces, as `attributions` defines them.

    Gradients are averaged over copies of the source vectors, each multiplied by one of the `scales`.
    """
    device = next(model.parameters()).device

    def predict(rows: int) -> Iterator[Tensor]:
        context = model.prepare(pad_source([source] * rows).to(device))
        inputs = torch.tensor([[BOS, *target[:-1]]] * rows, device=device)
        output, _ = model.read(inputs, model.start(context), context)
        log_probs = wide(model.log_probs(output, context))
        yield from (log_probs[:, place, token] for place, token in enumerate(target))

    embedding = model.encoder.embedding
    assert isinstance(embedding, nn.Module)
    with model.evaluating():
        return attributions(embedding, predict, scales=scales)


@contextmanager
def _changed_output(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """A context in which `change(output)` replaces each output of a module."""

    def hook(_module: nn.Module, _arguments: Any, output: Tensor | Padded) -> Tensor | Padded:
        return output._replace(values=change(output.values)) if isinstance(output, Padded) else change(output)

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()
