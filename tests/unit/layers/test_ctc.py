"""CTC: the loss is that of all alignments, enumerated; ours equals PyTorch's with its gradient; the best alignment."""

from itertools import pairwise, product

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from calque.layers.ctc import BLANK, ctc_losses, deterministic_ctc_losses, force_align
from calque.search.ctc_prefix import collapse

SYMBOLS, POSITIONS = 4, 5


def log_probs(rows: int, *, positions: int = POSITIONS, symbols: int = SYMBOLS, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, positions, symbols, generator=generator).double().log_softmax(dim=-1)


def enumerated(values: Tensor, text: tuple[int, ...]) -> float:
    """P(text): the sum over every path of the positions that collapses to it."""
    total = 0.0
    for path in product(range(values.shape[1]), repeat=values.shape[0]):
        if collapse(list(path), blank=BLANK) == text:
            total += float(values[range(len(path)), path].sum().exp())
    return total


@pytest.mark.parametrize("losses", [ctc_losses, deterministic_ctc_losses])
@pytest.mark.parametrize("text", [(), (1,), (2, 2), (1, 2, 1), (3, 3, 3), (1, 2, 3, 1, 2)])
def test_the_loss_is_that_of_all_alignments(losses, text) -> None:
    values = log_probs(1)
    tokens = torch.tensor([[*text, *[2] * (6 - len(text))]])  # what follows a text does not count
    loss = losses(values, tokens, torch.tensor([POSITIONS]), torch.tensor([len(text)]))
    assert (-loss).exp().item() == pytest.approx(enumerated(values[0], text), rel=1e-9)


def test_the_probabilities_of_all_texts_sum_to_one() -> None:
    values = log_probs(1, positions=4, symbols=3)
    texts = [text for length in range(5) for text in product((1, 2), repeat=length)]
    total = 0.0
    for text in texts:
        fits = len(text) + sum(a == b for a, b in pairwise(text)) <= 4
        tokens = torch.tensor([[*text, *[1] * (5 - len(text))]])
        loss = deterministic_ctc_losses(values, tokens, torch.tensor([4]), torch.tensor([len(text)]))
        total += float((-loss).exp()) if fits else 0.0
    assert total == pytest.approx(1, rel=1e-9)


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows of different length; the text of the last does not fit."""
    values = torch.randn(5, 9, 6, generator=torch.Generator().manual_seed(1)).double().requires_grad_()
    tokens = torch.tensor([[1, 2, 3, 3], [4, 4, 2, 2], [5, 2, 2, 2], [2, 2, 2, 2], [1, 1, 1, 1]])
    return values, tokens, torch.tensor([9, 7, 1, 5, 6]), torch.tensor([4, 3, 1, 0, 4])


def test_ours_equals_pytorchs_with_its_gradient() -> None:
    values, tokens, lengths, token_lengths = batch()
    weights = torch.tensor([1.0, 2.0, 0.5, 3.0, 1.0]).double()
    ours = deterministic_ctc_losses(values.log_softmax(-1), tokens, lengths, token_lengths)
    (gradient,) = torch.autograd.grad((ours * weights).sum(), values)
    theirs = F.ctc_loss(
        values.log_softmax(-1).transpose(0, 1), tokens, lengths, token_lengths, reduction="none", zero_infinity=True
    )
    (expected,) = torch.autograd.grad((theirs * weights).sum(), values)
    assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    assert_close(gradient, expected, rtol=0, atol=1e-9)
    assert ours[4] == 0 and not gradient[4].any()
    assert_close(ctc_losses(values.log_softmax(-1), tokens, lengths, token_lengths), theirs)


def test_the_gradient_is_that_of_finite_differences() -> None:
    values = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(3)).double().requires_grad_()
    tokens, lengths, token_lengths = torch.tensor([[1, 1, 2], [3, 2, 1]]), torch.tensor([5, 4]), torch.tensor([3, 2])

    def loss(scores: Tensor) -> Tensor:
        return deterministic_ctc_losses(scores.log_softmax(-1), tokens, lengths, token_lengths)

    assert torch.autograd.gradcheck(loss, (values,))


def test_long_recordings_in_float32_stay_finite() -> None:
    values = torch.randn(2, 400, 30, generator=torch.Generator().manual_seed(4)).requires_grad_()
    tokens = torch.randint(1, 30, (2, 60), generator=torch.Generator().manual_seed(5))
    lengths, token_lengths = torch.tensor([400, 333]), torch.tensor([60, 20])
    ours = deterministic_ctc_losses(values.log_softmax(-1), tokens, lengths, token_lengths)
    (gradient,) = torch.autograd.grad(ours.sum(), values)
    theirs = F.ctc_loss(
        values.double().log_softmax(-1).transpose(0, 1), tokens, lengths, token_lengths, reduction="none"
    )
    (expected,) = torch.autograd.grad(theirs.sum(), values)
    assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-3)
    assert_close(gradient, expected, rtol=0, atol=2e-3)


@pytest.mark.parametrize("text", [(1,), (2, 2), (1, 2, 1), (3, 1)])
def test_the_best_alignment_is_that_of_enumeration(text) -> None:
    values = log_probs(1, seed=7)[0]
    paths = [path for path in product(range(SYMBOLS), repeat=POSITIONS) if collapse(list(path), blank=BLANK) == text]
    best = max(paths, key=lambda path: float(values[range(POSITIONS), path].sum()))
    spans = force_align(values, list(text))
    assert spans is not None
    aligned = [BLANK] * POSITIONS
    for token, (first, end) in zip(text, spans, strict=True):
        aligned[first:end] = [token] * (end - first)
    assert tuple(aligned) == best


def test_a_text_that_does_not_fit_has_no_alignment() -> None:
    assert force_align(log_probs(1)[0], [1, 1, 1, 1]) is None
    assert force_align(log_probs(1)[0], []) == []
