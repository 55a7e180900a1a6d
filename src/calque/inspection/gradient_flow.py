"""Gradient flow: how strongly the loss of a token depends on the states at other positions, by layer and distance.

The document (JSON; what `calque inspect RUN --gradients --format json` writes and the web page shows):

    {"kind": "gradient-flow", "version": 1, "task": str,
     "model": {"name": str, "architecture": str, "parameters": int, "attends": bool},
     "sentences": int, "loss": float,                     # nats per token
     "flows": [{"name": "decoder.stack.layers.0", "side": "encoder" | "decoder" | "network",
                "layer": int,                             # 0: the embeddings
                "direction": "forward" | "backward" | null,
                "state": "embedding" | "hidden" | "cell" | "output",
                "distance": "positions" | "steps",
                "distances": [int…], "count": [int…], "mean": [float…],
                "quantiles": {"0.1": [float…], "0.5": […], "0.9": […]},
                "factor_per_step": float | null}…],       # exp of the slope of the median's logarithm
     "recurrences": [{"name", "side", "layer", "direction", "cell",
                "matrices": [{"gate": str, "spectral_radius": float, "spectral_norm": float,
                              "eigenvalues": [[re, im]…]}…],
                "bound": {"per_step": float, "of": str} | null,
                "jacobian": {"of": "∂c(t)/∂c(t−1)", "mean": {"spectral_radius", "spectral_norm", "eigenvalues"},
                             "steps": [2, 3…], "gains": {"direct": [float…], …, "total": […]}} | null,
                "gates": {"forget gate": {"mean": float, "quantiles": {…}, "by_step": [float…]}…}}…],
     "clipping": {"share": float, "steps": [int…], "shares": [float…]} | null}

J(i) is the loss of token i, h(j) the state at position j. A flow contains statistics of ‖∂J(i)/∂h(j)‖₂ for each
distance, over all sentences and all pairs (i, j) with that distance. Distances are

- "positions": i − j, counted in the text that is predicted or labelled. In a decoder or language model h(j) is the
  state after token j − 1 was read. Most decoders predict token j from it, so that distance 0 is the path that does not
  go through time. Bahdanau's decoder predicts token j from the previous state: its gradient is 0 at distance 0, and
  distance 1 is the path that does not go through time.
- "steps", for the encoder of a translation model: the number of time steps that separate reading source token j from
  predicting target token i if attention is ignored, i.e. the source tokens still to be read in the layer's direction
  plus i + 1 target steps (i counted from 0). Paths through attention are equally short at every distance.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from calque.inspection.recurrence_spectrum import QUANTILES, describe_recurrences
from calque.inspection.state_gradients import BatchGradients, InspectedBatch, StateNorms, batch_gradients
from calque.inspection.state_recording import Place, StateName, reading_order
from calque.tensors import length_mask

Array = NDArray[np.float64]
KIND, VERSION = "gradient-flow", 1
JACOBIAN_ROWS = 4  # sentences whose Jacobians are computed
FEWEST = 5  # distances with fewer pairs do not count for the factor per step


class Pairs(NamedTuple):
    """For each pair (i, j), the distance between token i and state j, and the gradient norm ‖∂J(i)/∂h(j)‖."""

    distances: NDArray[np.int64]
    norms: Array


def gradient_flow(model: nn.Module, batches: Sequence[InspectedBatch]) -> dict[str, Any]:
    """Measures the gradient flow of a model on batches of data.

    Returns the entries "sentences", "loss", "flows" and "recurrences" of the JSON at the top of this module.
    """
    pairs: dict[tuple[Place, StateName], list[Pairs]] = {}
    recurrences: list[dict[str, Any]] = []
    nats, tokens, sentences = 0.0, 0, 0
    device = next(model.parameters()).device
    for number, batch in enumerate(batches):
        gradients = batch_gradients(model, batch.to(device))
        nats, tokens = nats + float(gradients.losses[gradients.mask].sum()), tokens + int(gradients.mask.sum())
        sentences += batch.rows
        for norms in gradients.norms:
            pairs.setdefault((norms.place, norms.state), []).append(distance_pairs(norms, gradients))
        if number == 0:
            recurrences = describe_recurrences(gradients.layers, side_lengths(gradients), rows=JACOBIAN_ROWS)
    is_translation = any(place.side == "decoder" for place, _ in pairs)
    return {
        "sentences": sentences,
        "loss": nats / max(1, tokens),
        "flows": [
            {
                "name": place.name,
                "side": place.side,
                "layer": place.layer,
                "direction": place.direction,
                "state": state,
                "distance": "steps" if is_translation and place.side == "encoder" else "positions",
                **flow_statistics(parts),
            }
            for (place, state), parts in pairs.items()
        ],
        "recurrences": recurrences,
    }


def side_lengths(gradients: BatchGradients) -> dict[str, Tensor]:
    """The sentence lengths [B], in positions, by part of the model: "encoder", "decoder" or "network" (language model).

    The encoder of a translation model reads the source, that of a tagger the text that is labelled.
    """
    encoder = gradients.lengths if gradients.source_lengths is None else gradients.source_lengths
    return {"encoder": encoder, "decoder": gradients.lengths, "network": gradients.lengths}


def distance_pairs(norms: StateNorms, gradients: BatchGradients) -> Pairs:
    """The distances and norms of all pairs (i, j) of a batch.

    For a decoder or language model, only pairs with i ≥ j are included.
    """
    place = norms.place
    _, losses, positions = norms.norms.shape
    lengths = side_lengths(gradients)[place.side]
    loss_index = torch.arange(losses)[None, :, None]
    state_index = torch.arange(positions)[None, None]
    is_pair = gradients.mask[:, :, None] & length_mask(lengths, size=positions)[:, None]
    if place.side == "encoder" and gradients.source_lengths is not None:
        order = reading_order(place, lengths=lengths, size=positions)[:, None]
        distances = loss_index + lengths[:, None, None] - order
    else:
        distances = (loss_index - state_index).expand_as(is_pair)
        if place.side != "encoder":
            is_pair = is_pair & (distances >= 0)
    return Pairs(distances[is_pair].numpy(), norms.norms[is_pair].numpy())


def flow_statistics(parts: Sequence[Pairs]) -> dict[str, Any]:
    """Statistics of the gradient norms for each distance: number of pairs, mean, quantiles, and factor per step."""
    distances = np.concatenate([part.distances for part in parts])
    norms = np.concatenate([part.norms for part in parts])
    order = np.argsort(distances, kind="stable")
    values, starts = np.unique(distances[order], return_index=True)
    groups = np.split(norms[order], starts[1:]) if len(values) else []
    quantiles = {str(share): [float(np.quantile(group, share)) for group in groups] for share in QUANTILES}
    return {
        "distances": values.tolist(),
        "count": [len(group) for group in groups],
        "mean": [float(group.mean()) for group in groups],
        "quantiles": quantiles,
        "factor_per_step": factor_per_step(values, np.array(quantiles["0.5"]), [len(group) for group in groups]),
    }


def factor_per_step(distances: NDArray[np.int64], medians: Array, count: Sequence[int]) -> float | None:
    """The factor by which the median norm changes per step of distance: a linear fit of its logarithm, from distance 1.

    Distances are weighted by their number of pairs; those with few pairs or a zero median are left out.
    """
    known = (distances >= 1) & (medians > 0) & np.isfinite(medians) & (np.array(count) >= FEWEST)
    if known.sum() < 2:
        return None
    weights = np.sqrt(np.array(count, dtype=np.float64)[known])
    slope = np.polyfit(distances[known], np.log(medians[known]), 1, w=weights)[0]
    return float(np.exp(slope))


def recorded_flow(flow: dict[str, Any]) -> dict[str, Any]:
    """The excerpt of a gradient flow (the JSON at the top of this module) that training records.

    It contains the median norms of each state by distance, and the spectral radii, gains and gates of each recurrent
    layer.
    """
    return {
        "loss": flow["loss"],
        "flows": [
            {
                **{key: item[key] for key in ("name", "state", "distance", "distances", "factor_per_step")},
                "median": item["quantiles"]["0.5"],
            }
            for item in flow["flows"]
        ],
        "recurrences": list(map(_recorded_recurrence, flow["recurrences"])),
    }


def _recorded_recurrence(item: dict[str, Any]) -> dict[str, Any]:
    jacobian = item["jacobian"]
    return {
        "name": item["name"],
        "spectral_radius": {matrix["gate"]: matrix["spectral_radius"] for matrix in item["matrices"]},
        "bound": item["bound"] and item["bound"]["per_step"],
        "gains": jacobian and {name: float(np.mean(values)) for name, values in jacobian["gains"].items()},
        "gates": {name: gate["mean"] for name, gate in item["gates"].items()},
    }


def top_states(flows: Sequence[dict[str, Any]], *, side: str) -> Iterator[dict[str, Any]]:
    """The flows of one side, one state per layer: the cell of an LSTM, else the hidden state or the output."""
    cells = {item["name"] for item in flows if item["state"] == "cell"}
    for item in flows:
        if item["side"] == side and (item["name"] not in cells or item["state"] == "cell"):
            yield item


def skips_own_state(flows: Sequence[dict[str, Any]]) -> bool:
    """Whether a decoder predicts token i from the previous state, so that its gradient at distance 0 is zero.

    This holds for Bahdanau's decoder, whose output reads s(i−1), the embedding of token i−1 and the context (Bahdanau
    2015, A.2.2).
    """
    return any(
        flow["side"] == "decoder"
        and flow["direction"] is not None
        and flow["distances"][:1] == [0]
        and not flow["mean"][0]
        and any(flow["mean"])
        for flow in flows
    )
