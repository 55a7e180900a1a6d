"""∂J(i)/∂h(j): the gradient of one token's loss with respect to one position's state, for all layers.

J(i) is the loss of token i alone: of a target token (translation), of a token of a text (language models), of a word's
label (taggers; with a CRF −log P(yᵢ | x), the marginal). h(j) is the state after position j was read. The cell of an
LSTM acts on its hidden state too, so the gradient of the cell contains that path; the gradient of the hidden state is
the one with the cell held fixed.

Letters: B sentences, S source, T losses, P positions, D width.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from calque.data.pair_batch import PairBatch
from calque.data.tag_batch import TagBatch
from calque.data.text_batch import TextBatch
from calque.inspection.state_recording import Place, Recorded, StateName, by_position, record_states
from calque.models.language_model import LanguageModel
from calque.models.model import Model
from calque.models.tagger import TaggerModel
from calque.tasks.tagging import source_of
from calque.tensors import exact, length_mask
from calque.text import PAD

InspectedBatch = PairBatch | TextBatch | TagBatch


class TokenLosses(NamedTuple):
    """The loss of every token of a batch."""

    losses: Tensor  # [B,T], 0 where there is none
    mask: Tensor  # [B,T], true where there is a loss
    root: Tensor  # [B,T,…]: losses[b,i] depends on root[b,i] and on no other position of it


class StateNorms(NamedTuple):
    """The norms of the gradients of all losses with respect to one kind of state of a layer, at all positions."""

    place: Place
    state: StateName
    norms: Tensor  # [B,T,P] in float64 on the CPU; P in the order of the text


class BatchGradients(NamedTuple):
    """The gradients of a batch's losses with respect to its states."""

    losses: Tensor  # [B,T]
    mask: Tensor  # [B,T], true where there is a loss
    lengths: Tensor  # [B], positions of the text that is predicted, or labelled
    source_lengths: Tensor | None  # [B], positions of the source
    norms: list[StateNorms]
    layers: list[Recorded]  # the states themselves


def token_losses(model: nn.Module, batch: InspectedBatch) -> TokenLosses:
    """The loss of every token, without label smoothing. The model must be in evaluation mode."""
    match model, batch:
        case Model(), PairBatch():
            output = model(batch.source, batch.target_input)
            losses = model.losses(output, batch.source.values, batch.target_output, smoothing=0.0, ignored=PAD)
            return TokenLosses(losses, batch.target_output != PAD, losses if model.copies else output.hidden)
        case LanguageModel(), TextBatch():
            read, _ = model.read(batch.inputs, model.start(batch.rows))
            losses = model.losses(read.hidden.flatten(0, 1), batch.outputs.flatten(), ignored=PAD)
            return TokenLosses(losses.view_as(batch.outputs), batch.outputs != PAD, read.hidden)
        case TaggerModel(), TagBatch():
            scores = model(source_of(batch))
            mask = length_mask(batch.lengths.to(scores.device), size=scores.shape[1])
            mask = mask & (batch.labels < scores.shape[-1])  # labels that the model does not know have no probability
            labels = batch.labels.masked_fill(~mask, 0)
            probabilities = model.marginals(scores, batch.lengths).gather(2, labels[..., None]).squeeze(2)
            losses = -probabilities.masked_fill(~mask, 1).clamp(min=torch.finfo(probabilities.dtype).tiny).log()
            return TokenLosses(losses, mask, losses)
        case _:
            raise TypeError(f"{type(model).__name__} cannot read a batch of type {type(batch).__name__}")


def batch_gradients(model: nn.Module, batch: InspectedBatch) -> BatchGradients:
    """The norms of ∂J(i)/∂h(j) for all sentences, one backward pass per i.

    Sentences do not depend on each other, so each row of the gradient of the summed losses is the gradient of one
    sentence. The backward pass through the output layer is shared by all i. Law: the norms are those that
    `reference_gradients` computes for each sentence by itself.
    """
    with torch.enable_grad(), _evaluating(model), record_states(model) as recording:
        losses, mask, root = token_losses(model, batch)
        seeds = torch.ones_like(losses)
        if root is not losses:
            (seeds,) = torch.autograd.grad(losses.sum(), [root], retain_graph=True)
        lengths, source_lengths = _lengths(batch)
        states = [(layer, name, parts) for layer in recording.layers for name, parts in layer.states().items()]
        tensors = [part for _, _, parts in states for part in parts]
        rows: list[list[Tensor]] = [[] for _ in states]
        for index in range(losses.shape[1]):
            seed = torch.zeros_like(seeds)
            seed[:, index] = seeds[:, index]
            gradients = list(
                torch.autograd.grad(root, tensors, grad_outputs=seed, retain_graph=True, allow_unused=True)
            )
            for row, (_, _, parts) in zip(rows, states, strict=True):
                row.append(_norms(parts, [gradients.pop(0) for _ in parts]))
    norms = []
    for row, (layer, name, _) in zip(rows, states, strict=True):
        side_lengths = source_lengths if source_lengths is not None and layer.place.side == "encoder" else lengths
        ordered = [by_position(values, layer.place, lengths=side_lengths) for values in row]
        norms.append(StateNorms(layer.place, name, torch.stack(ordered, dim=1)))
    return BatchGradients(losses.detach().cpu(), mask.cpu(), lengths, source_lengths, norms, recording.detached())


def reference_gradients(model: nn.Module, batch: InspectedBatch) -> dict[tuple[str, StateName], list[list[float]]]:
    """The norms of ∂J(i)/∂h(j) [T,P] of one sentence, by layer and state: a simple oracle for `batch_gradients`."""
    assert batch.rows == 1
    with torch.enable_grad(), _evaluating(model), record_states(model) as recording:
        losses = token_losses(model, batch).losses[0]
        return {
            (layer.place.name, name): [_reference_row(loss, layer, parts) for loss in losses]
            for layer in recording.layers
            for name, parts in layer.states().items()
        }


def _reference_row(loss: Tensor, layer: Recorded, parts: list[Tensor]) -> list[float]:
    """The norms of the gradients of one loss with respect to a layer's states `parts`, in the order of the text."""
    gradients = torch.autograd.grad(loss, parts, retain_graph=True, allow_unused=True)
    norms = []
    for part, gradient in zip(parts, gradients, strict=True):
        vectors = (torch.zeros_like(part) if gradient is None else gradient).reshape(-1, part.shape[-1])
        norms += [float(exact(vector).norm()) for vector in vectors]
    if layer.place.direction == "backward":
        norms.reverse()
    if layer.place.is_reversed:
        norms = [*norms[-2::-1], norms[-1]]
    return norms


def _norms(parts: list[Tensor], gradients: list[Tensor | None]) -> Tensor:
    """The gradient norms [B,P] at P positions with states `parts`: one tensor [B,P,D] or P tensors [B,D].

    A gradient of None counts as 0: the loss does not depend on that state.
    """
    known = [torch.zeros_like(part) if grad is None else grad for part, grad in zip(parts, gradients, strict=True)]
    stacked = known[0] if parts[0].dim() == 3 else torch.stack(known, dim=1)
    norms: Tensor = torch.linalg.vector_norm(exact(stacked), dim=-1)
    return norms.cpu()


def _lengths(batch: InspectedBatch) -> tuple[Tensor, Tensor | None]:
    """The number of predicted or labelled positions of each sentence, and of source positions (None if no source)."""
    match batch:
        case PairBatch():
            return batch.target_lengths, batch.source.lengths
        case _:
            return batch.lengths, None


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """A context in which a model is in evaluation mode; its previous mode is restored afterwards."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
