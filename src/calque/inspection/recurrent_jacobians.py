"""The Jacobian of one step of a recurrent layer, term by term, in closed form from its weights and states.

It is ∂c(t)/∂c(t−1) of an LSTM's cell and ∂h(t)/∂h(t−1) of any other cell, with the layer's inputs at t held fixed; the
output gate of an LSTM at t − 1, which does not depend on c(t−1), is fixed too. With u = U h(t−1) for the
recurrent part of the gates' pre-activations, powers taken element by element, and diag left out:

- LSTM (gates i, f, o; candidate g): f + [c(t−1) f (1 − f) U_f + g i (1 − i) U_i + i (1 − g²) U_g] · ∂h(t−1)/∂c(t−1),
  ∂h(t−1)/∂c(t−1) = o(t−1) (1 − tanh² c(t−1)): the direct path through the forget gate, and the paths through h(t−1)
  into the forget gate, the input gate and the candidate;
- GRU (gates r, z; candidate n): z + (h(t−1) − n) z (1 − z) U_z + (1 − z) (1 − n²) [r U_n + u_n r (1 − r) U_r]: direct,
  update gate, candidate, reset gate; the original GRU has U_n r and U_n h(t−1) r (1 − r) U_r in the last two;
- RNN: (1 − h(t)²) U with tanh, [h(t) > 0] U with ReLU.

With layer normalisation, U is multiplied from the left by the Jacobian of the normalisation at u, and ∂h/∂c of an
LSTM from the right by the Jacobian of the cell's normalisation.

Letters: N rows, D width, G gates, M = G·D.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.observers import RecurrentStep
from calque.layers.recurrent import Recurrence
from calque.models.cho import ChoDecoder

RecurrentLayer = Recurrence | ChoDecoder
DIRECT = "direct"


class StepTerms(NamedTuple):
    """The terms of the Jacobian of one time step of a recurrent layer, and the values of its gates."""

    terms: dict[str, Tensor]  # [N,D,D] each; they sum to the Jacobian
    gates: dict[str, Tensor]  # [N,D] each


def recurrent_weight(layer: RecurrentLayer) -> Tensor:
    """[G·D,D], the weights between the state and the gates."""
    if isinstance(layer, ChoDecoder):
        return layer.from_state.weight
    weight: Tensor = layer.kernel.all_weights[0][1]
    return weight


def cell_name(layer: RecurrentLayer) -> str:
    """The name of a layer's cell, as in its config."""
    return "gru" if isinstance(layer, ChoDecoder) else layer.cell


@torch.no_grad()
def step_terms(layer: RecurrentLayer, previous: RecurrentStep, step: RecurrentStep) -> StepTerms:
    """The terms of the layer's Jacobian at the time step `step`; `previous` is the time step before."""
    match cell_name(layer):
        case "lstm":
            assert isinstance(layer, Recurrence)
            return _lstm(layer, previous, step)
        case "gru" | "gru-original":
            return _gru(layer, step)
        case _:
            assert isinstance(layer, Recurrence)
            return _rnn(layer, step)


def _rnn(layer: Recurrence, step: RecurrentStep) -> StepTerms:
    total = step.projected + _share(layer, step)
    slope = _slope(_norm(layer, "total"), total, recurrent_weight(layer))
    (after,) = step.after
    outer = 1 - after**2 if layer.cell == "rnn" else (after > 0).to(after.dtype)
    return StepTerms({"recurrent": outer[..., None] * slope}, {})


def _lstm(layer: Recurrence, previous: RecurrentStep, step: RecurrentStep) -> StepTerms:
    enter, forget, candidate, _ = _lstm_gates(layer, step)
    leave = _lstm_gates(layer, previous)[3]
    cell = step.before[1]
    slopes = _slope(_norm(layer, "hidden"), _share(layer, step), recurrent_weight(layer)).chunk(4, dim=1)
    norm = _norm(layer, "cell")
    outer = leave * (1 - (cell if norm is None else norm(cell)).tanh() ** 2)  # [N,D]

    def through_hidden(matrix: Tensor) -> Tensor:
        """The chain rule: turns a derivative [N,D,D] with respect to h(t−1) into one with respect to c(t−1)."""
        if norm is None:
            return matrix * outer[:, None]
        eye = torch.eye(cell.shape[-1], dtype=cell.dtype, device=cell.device)
        return matrix @ (outer[..., None] * _slope(norm, cell, eye))

    terms = {
        DIRECT: torch.diag_embed(forget),
        "forget gate": through_hidden((cell * forget * (1 - forget))[..., None] * slopes[1]),
        "input gate": through_hidden((candidate * enter * (1 - enter))[..., None] * slopes[0]),
        "candidate": through_hidden((enter * (1 - candidate**2))[..., None] * slopes[2]),
    }
    return StepTerms(terms, {"forget gate": forget, "input gate": enter, "output gate": _lstm_gates(layer, step)[3]})


def _lstm_gates(layer: Recurrence, step: RecurrentStep) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The input gate i, forget gate f, candidate g and output gate o of an LSTM at a time step, [N,D] each."""
    inputs, hidden = step.projected, _share(layer, step)
    if layer.norms:
        inputs, hidden = layer.norms["inputs"](inputs), layer.norms["hidden"](hidden)
    enter, forget, candidate, leave = (inputs + hidden).chunk(4, dim=-1)
    return enter.sigmoid(), forget.sigmoid(), candidate.tanh(), leave.sigmoid()


def _gru(layer: RecurrentLayer, step: RecurrentStep) -> StepTerms:
    weight, width = recurrent_weight(layer), step.before[0].shape[-1]
    gate_weight, candidate_weight = weight[: 2 * width], weight[2 * width :]
    before, shares = step.before[0], _share(layer, step)
    inputs, hidden = step.projected[:, : 2 * width], shares[:, : 2 * width]
    gate_norm = _norm(layer, "hidden")
    if isinstance(layer, Recurrence) and layer.norms:
        inputs, hidden = layer.norms["inputs"](inputs), layer.norms["hidden"](hidden)
    reset, update = (inputs + hidden).sigmoid().chunk(2, dim=-1)
    reset_slope, update_slope = _slope(gate_norm, shares[:, : 2 * width], gate_weight).chunk(2, dim=1)
    reset_slope = (reset * (1 - reset))[..., None] * reset_slope  # ∂r/∂h
    inner_norm = _norm(layer, "candidate_hidden")
    if cell_name(layer) == "gru":
        inner = shares[:, 2 * width :]
        slope = _slope(inner_norm, inner, candidate_weight)
        inner = inner if inner_norm is None else inner_norm(inner)
        by_candidate, by_reset = reset[..., None] * slope, inner[..., None] * reset_slope
        inner = reset * inner
    else:
        assert isinstance(layer, Recurrence)
        bias = layer.kernel.all_weights[0][3][2 * width :] if layer.kernel.bias else None
        inner = F.linear(reset * before, candidate_weight, bias)
        slope = _slope(inner_norm, inner, candidate_weight)
        by_candidate, by_reset = slope * reset[:, None], slope @ (before[..., None] * reset_slope)
        inner = inner if inner_norm is None else inner_norm(inner)
    entering = step.projected[:, 2 * width :]
    input_norm = _norm(layer, "candidate_inputs")
    candidate = ((entering if input_norm is None else input_norm(entering)) + inner).tanh()
    outer = ((1 - update) * (1 - candidate**2))[..., None]
    terms = {
        DIRECT: torch.diag_embed(update),
        "update gate": ((before - candidate) * update * (1 - update))[..., None] * update_slope,
        "reset gate": outer * by_reset,
        "candidate": outer * by_candidate,
    }
    return StepTerms(terms, {"update gate": update, "reset gate": reset})


def _share(layer: RecurrentLayer, step: RecurrentStep) -> Tensor:
    """The part [N,G·D] of the G gates' pre-activations that depends on the previous state, before normalisation."""
    if step.recurrent is not None:
        return step.recurrent
    assert isinstance(layer, Recurrence)
    _, weight, *biases = layer.kernel.all_weights[0]
    return F.linear(step.before[0], weight, biases[1] if biases else None)


def _norm(layer: RecurrentLayer, name: str) -> nn.LayerNorm | None:
    if isinstance(layer, ChoDecoder) or not layer.norms:
        return None
    norm = layer.norms[name]
    assert isinstance(norm, nn.LayerNorm)
    return norm


def _slope(norm: nn.LayerNorm | None, values: Tensor, weight: Tensor) -> Tensor:
    """The Jacobian [N,M,D] of norm(W x + b) with respect to x, for `weight` W [M,D], where `values` [N,M] are W x + b.

    With v = W x + b, x̂ = (v − mean v) / σ and norm(v) = w x̂ + c: ∂norm/∂v = w/σ (1 − 1/M − x̂ x̂ᵀ/M). If `norm` is
    None, the Jacobian is W.
    """
    if norm is None:
        return weight.expand(len(values), -1, -1)
    deviation = (values.var(dim=-1, unbiased=False, keepdim=True) + norm.eps).sqrt()
    normalised = (values - values.mean(dim=-1, keepdim=True)) / deviation
    along = (normalised @ weight / weight.shape[0])[:, None]  # [N,1,D]
    inner = weight - weight.mean(dim=0) - normalised[..., None] * along
    return (norm.weight / deviation)[..., None] * inner
