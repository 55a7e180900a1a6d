"""Eigenvalues of recurrent weights, what they bound, and the mean Jacobian of a layer on data.

A gradient that goes back k steps through a plain RNN is multiplied by k Jacobians diag(φ′) U, with |φ′| ≤ 1 for tanh
and ReLU. So ‖∂h(t)/∂h(t−k)‖₂ ≤ σₘₐₓ(U)ᵏ, where σₘₐₓ is the largest singular value. If it is below 1, gradients through
the layer's own recurrence must vanish (Pascanu et al. 2013, §2.1). The spectral radius ρ(U) ≤ σₘₐₓ(U), the largest
|eigenvalue|, matters in the long run where φ′ is constant: without a nonlinearity gradients grow or shrink as ρᵏ. Gated
cells have no useful bound of this kind, because their direct path does not go through a matrix. For them, the
eigenvalues of the mean Jacobian on data are reported.

Letters: N rows, D width.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.inspection.recurrent_jacobians import RecurrentLayer, cell_name, recurrent_weight, step_terms
from calque.inspection.state_recording import RECURRENT, Recorded
from calque.layers.recurrent import Recurrence
from calque.tensors import exact, map_rows

GATES = {
    "rnn": ("recurrent",),
    "rnn-relu": ("recurrent",),
    "lstm": ("input gate", "forget gate", "candidate", "output gate"),
    "gru": ("reset gate", "update gate", "candidate"),
    "gru-original": ("reset gate", "update gate", "candidate"),
}
"""The gates of each cell, in the order of their rows in the recurrent weight matrix."""
QUANTILES = (0.1, 0.5, 0.9)


class Spectrum(NamedTuple):
    """The eigenvalues of a square matrix."""

    eigenvalues: Tensor  # [D], complex
    radius: float
    norm: float  # the largest singular value


def spectrum(matrix: Tensor) -> Spectrum:
    """The spectrum of a matrix [D,D], in float64; NaN if the matrix is not finite, as when training has diverged."""
    values = exact(matrix.detach()).cpu()
    if not bool(values.isfinite().all()):
        return Spectrum(torch.full((len(values),), complex(math.nan, math.nan)), math.nan, math.nan)
    eigenvalues = torch.linalg.eigvals(values)
    return Spectrum(eigenvalues, float(eigenvalues.abs().max()), float(torch.linalg.matrix_norm(values, ord=2)))


def recurrent_matrices(layer: RecurrentLayer) -> dict[str, Tensor]:
    """The recurrent matrix [D,D] of each gate."""
    names = GATES[cell_name(layer)]
    return dict(zip(names, recurrent_weight(layer).chunk(len(names)), strict=True))


def step_bound(layer: RecurrentLayer) -> float | None:
    """An upper bound of ‖∂h(t)/∂h(t−1)‖₂ for all states and inputs; None if the cell is gated or normalised."""
    if not isinstance(layer, Recurrence) or layer.cell not in ("rnn", "rnn-relu") or layer.norms:
        return None
    return spectrum(recurrent_weight(layer)).norm


def describe_recurrences(layers: Sequence[Recorded], lengths: dict[str, Tensor], *, rows: int) -> list[dict[str, Any]]:
    """The entry "recurrences" of the JSON described in `gradient_flow`, given the states recorded in one pass.

    `lengths` are the sentence lengths [B] for each side; Jacobians are computed for the first `rows` sentences.
    """
    return [
        _describe(recorded, recorded.module, lengths[recorded.place.side][:rows])
        for recorded in layers
        if isinstance(recorded.module, RECURRENT)
    ]


def _describe(recorded: Recorded, layer: RecurrentLayer, lengths: Tensor) -> dict[str, Any]:
    place, bound = recorded.place, step_bound(layer)
    matrices = {gate: spectrum(matrix) for gate, matrix in recurrent_matrices(layer).items()}
    return {
        "name": place.name,
        "side": place.side,
        "layer": place.layer,
        "direction": place.direction,
        "cell": cell_name(layer),
        "matrices": [{"gate": gate, **_spectrum_values(values)} for gate, values in matrices.items()],
        "bound": None if bound is None else {"per_step": bound, "of": "‖∂h(t)/∂h(t−1)‖₂, inputs held fixed"},
        **_jacobians(layer, recorded, lengths),
    }


def _spectrum_values(values: Spectrum) -> dict[str, Any]:
    return {
        "spectral_radius": values.radius,
        "spectral_norm": values.norm,
        "eigenvalues": [[round(value.real, 6), round(value.imag, 6)] for value in values.eigenvalues.tolist()],
    }


def _jacobians(layer: RecurrentLayer, recorded: Recorded, lengths: Tensor) -> dict[str, Any]:
    """Statistics of the Jacobian of a layer's state with respect to its previous state, on data, and of the gates.

    They are the gain of each term of the Jacobian at each time step, and the spectrum of the mean Jacobian. The gain of
    a term is ‖·‖_F / √D for width D: the root mean square, over all directions, of how much it stretches a vector.
    """
    rows, total_steps = len(lengths), 0
    gains: dict[str, list[float]] = {}
    gates: dict[str, list[Tensor]] = {}
    mean: Tensor | None = None
    for number in range(1, min(len(recorded.steps), int(lengths.max()))):
        previous, step = (map_rows(lambda part: part[:rows], recorded.steps[at]) for at in (number - 1, number))
        terms, step_gates = step_terms(layer, previous, step)
        is_read = (number < lengths).to(step.after[0].device)  # [rows]
        jacobian = torch.stack(list(terms.values())).sum(dim=0)
        for name, term in {**terms, "total": jacobian}.items():
            gains.setdefault(name, []).append(float(_gain(term)[is_read].mean()))
        for name, gate in step_gates.items():
            gates.setdefault(name, []).append(exact(gate[is_read]).cpu())
        part = exact(jacobian[is_read]).sum(dim=0).cpu()
        mean = part if mean is None else mean + part
        total_steps += int(is_read.sum())
    if mean is None:
        return {"jacobian": None, "gates": {}}
    of = "∂c(t)/∂c(t−1)" if cell_name(layer) == "lstm" else "∂h(t)/∂h(t−1)"
    return {
        "jacobian": {
            "of": of,
            "mean": _spectrum_values(spectrum(mean / total_steps)),
            "steps": list(range(2, len(gains["total"]) + 2)),
            "gains": {name: [round(gain, 8) for gain in values] for name, values in gains.items()},
        },
        "gates": {name: _gate_values(values) for name, values in gates.items()},
    }


def _gate_values(by_step: list[Tensor]) -> dict[str, Any]:
    values = torch.cat(by_step)
    quantiles = torch.quantile(values.mean(dim=0), torch.tensor(QUANTILES, dtype=values.dtype)).tolist()
    return {
        "mean": float(values.mean()),
        "quantiles": dict(zip(map(str, QUANTILES), quantiles, strict=True)),  # of the units' means
        "by_step": [round(float(step.mean()), 8) for step in by_step],
    }


def _gain(matrices: Tensor) -> Tensor:
    """The gain ‖J‖_F / √D of each of N matrices J, given as [N,D,D]."""
    norms: Tensor = torch.linalg.matrix_norm(exact(matrices))
    return norms / math.sqrt(matrices.shape[-1])
