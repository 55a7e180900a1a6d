"""The terms of a step's Jacobian sum to autograd's for every cell; each term of an LSTM is the path it names."""

from itertools import pairwise

import pytest
import torch
from tests.laws.models import build
from tests.unit.inspection.test_state_gradients import pair_batch
from torch import Tensor
from torch.autograd.functional import jacobian

from calque.inspection.recurrent_jacobians import step_terms
from calque.inspection.state_gradients import batch_gradients
from calque.layers.observers import RecurrentStep
from calque.layers.recurrent import CellName, Recurrence
from calque.models.cho import ChoDecoder

ROWS, STEPS, INPUTS, WIDTH = 3, 4, 5, 7
CELLS: tuple[CellName, ...] = ("rnn", "rnn-relu", "lstm", "gru", "gru-original")


def recorded(cell: CellName, *, layer_norm: bool = False) -> tuple[Recurrence, list[RecurrentStep]]:
    """A layer with loud weights, and its steps over random inputs."""
    torch.manual_seed(3)
    layer = Recurrence(cell, input_width=INPUTS, width=WIDTH, layer_norm=layer_norm).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.6)
    steps: list[RecurrentStep] = []
    layer.state_observer = lambda step: steps.append(step) if isinstance(step, RecurrentStep) else None
    inputs = torch.randn(ROWS, STEPS, INPUTS, dtype=torch.float64)
    with torch.no_grad():
        layer(inputs, tuple(torch.randn(ROWS, WIDTH, dtype=torch.float64) for _ in layer.zero_state(1, like=inputs)))
    layer.state_observer = None
    return layer, steps


def expected_jacobian(layer: Recurrence, step: RecurrentStep, row: int) -> Tensor:
    """Autograd's Jacobian of the state that a cell carries: c of an LSTM, h of any other."""
    projected = step.projected[row : row + 1]

    def hidden_to_hidden(before: Tensor) -> Tensor:
        return layer.step(projected, (before[None],))[1][0][0]

    if layer.cell != "lstm":
        return jacobian(hidden_to_hidden, step.before[0][row])  # type: ignore[no-any-return]
    hidden, cell = (part[row] for part in step.before)

    def normalised(cell: Tensor) -> Tensor:
        return layer.norms["cell"](cell) if layer.norms else cell  # type: ignore[no-any-return]

    leave = hidden / normalised(cell).tanh()  # the output gate at t − 1, which does not depend on the cell

    def cell_to_cell(cell: Tensor) -> Tensor:
        before = leave * normalised(cell).tanh()
        return layer.step(projected, (before[None], cell[None]))[1][1][0]

    return jacobian(cell_to_cell, cell)  # type: ignore[no-any-return]


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_the_terms_sum_to_the_jacobian(cell: CellName, layer_norm: bool) -> None:
    layer, steps = recorded(cell, layer_norm=layer_norm)
    for previous, step in pairwise(steps):
        terms = step_terms(layer, previous, step).terms
        assert len(terms) == (1 if cell.startswith("rnn") else 4)
        total = torch.stack(list(terms.values())).sum(dim=0)
        for row in range(ROWS):
            torch.testing.assert_close(total[row], expected_jacobian(layer, step, row), rtol=0, atol=1e-9)


def test_each_term_of_an_lstm_is_the_path_it_names() -> None:
    layer, steps = recorded("lstm")
    weight, bias = layer.kernel.all_weights[0][1].detach(), layer.kernel.all_weights[0][3].detach()
    for previous, step in pairwise(steps):
        terms, gates = step_terms(layer, previous, step)
        for row in range(ROWS):
            hidden, cell = (part[row] for part in step.before)
            leave = hidden / cell.tanh()

            def next_cell(*cells: Tensor, row: int = row, step: RecurrentStep = step, leave: Tensor = leave) -> Tensor:
                """c(t), with a copy of c(t−1) for each of the four paths."""
                direct, *others = cells
                shares = [(leave * other.tanh()) @ weight.T + bias + step.projected[row] for other in others]
                forget, enter, candidate = (share.chunk(4)[gate] for share, gate in zip(shares, (1, 0, 2), strict=True))
                return forget.sigmoid() * direct + enter.sigmoid() * candidate.tanh()

            paths = jacobian(next_cell, (cell,) * 4)
            names = ("direct", "forget gate", "input gate", "candidate")
            for name, path in zip(names, paths, strict=True):
                torch.testing.assert_close(terms[name][row], path, rtol=0, atol=1e-9)
            torch.testing.assert_close(torch.diag(terms["direct"][row]), gates["forget gate"][row])


def test_the_decoder_of_cho_reads_its_summary_too() -> None:
    gradients = batch_gradients(build("cho"), pair_batch())
    (layer,) = (item for item in gradients.layers if isinstance(item.module, ChoDecoder))
    decoder = layer.module
    assert isinstance(decoder, ChoDecoder)
    for previous, step in pairwise(layer.steps):
        total = torch.stack(list(step_terms(decoder, previous, step).terms.values())).sum(dim=0)
        for row in range(len(total)):
            assert step.recurrent is not None
            summary = step.recurrent[row] - decoder.from_state(step.before[0][row])  # C c, which is fixed

            def following(
                before: Tensor, summary: Tensor = summary, step: RecurrentStep = step, row: int = row
            ) -> Tensor:
                recurrent = decoder.from_state(before) + summary
                return decoder._step(step.projected[row], recurrent, before)

            torch.testing.assert_close(total[row], jacobian(following, step.before[0][row]), rtol=0, atol=1e-9)
