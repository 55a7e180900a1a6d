"""Penalties on activations: against the paper's equations, in chunks, and behind the ends of rows."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from calque.layers.regularisation import activation_penalty, temporal_activation_penalty

ROWS, SIZE, WIDTH = 3, 5, 4
LENGTHS = [5, 1, 3]
MASK = torch.arange(SIZE) < torch.tensor(LENGTHS)[:, None]


def some(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def test_a_mean_over_tokens_is_the_papers_mean_over_all_elements() -> None:
    outputs = some(ROWS, SIZE, WIDTH)
    terms, changes = activation_penalty(outputs), temporal_activation_penalty(outputs)
    assert terms.shape == changes.shape == (ROWS, SIZE)
    torch.testing.assert_close(terms.mean(), outputs.pow(2).mean(), rtol=1e-12, atol=0)
    paper = (outputs[:, 1:] - outputs[:, :-1]).pow(2).mean()
    torch.testing.assert_close(changes.sum() / (ROWS * (SIZE - 1)), paper, rtol=1e-12, atol=0)


def test_each_token_has_its_own_term() -> None:
    """One vector at a time; the later token bears the difference."""
    outputs = some(ROWS, SIZE, WIDTH)
    terms, changes = activation_penalty(outputs, mask=MASK), temporal_activation_penalty(outputs, mask=MASK)
    for row, size in enumerate(LENGTHS):
        for place in range(SIZE):
            here, last = outputs[row, place], outputs[row, max(place - 1, 0)]
            expected = [here @ here / WIDTH, (here - last) @ (here - last) / WIDTH] if place < size else [0, 0]
            assert [terms[row, place].item(), changes[row, place].item()] == pytest.approx([float(e) for e in expected])


def test_in_chunks_it_costs_the_same() -> None:
    outputs = some(ROWS, SIZE, WIDTH)
    whole = temporal_activation_penalty(outputs)
    first = temporal_activation_penalty(outputs[:, :2])
    second = temporal_activation_penalty(outputs[:, 2:], before=outputs[:, 1])
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole, rtol=1e-12, atol=0)


@pytest.mark.parametrize("penalty", [activation_penalty, temporal_activation_penalty])
def test_what_stands_behind_a_row_changes_nothing(penalty) -> None:
    clean = some(ROWS, SIZE, WIDTH).requires_grad_()
    dirty = clean.detach().masked_fill(~MASK[..., None], float("nan")).requires_grad_()
    gradients = []
    for outputs in (clean, dirty):
        terms = penalty(outputs, mask=MASK)
        assert not terms[~MASK].any()
        gradients.append(torch.autograd.grad(terms.sum(), outputs)[0])
    assert torch.equal(*gradients)
    assert not gradients[1][~MASK].any()


def test_gradients() -> None:
    outputs, before = some(ROWS, SIZE, WIDTH).requires_grad_(), some(ROWS, WIDTH).requires_grad_()
    assert gradcheck(lambda values: activation_penalty(values, mask=MASK), (outputs,))
    assert gradcheck(lambda *values: temporal_activation_penalty(values[0], before=values[1]), (outputs, before))
