"""The mixture of generation and copying against See's equations."""

import pytest
import torch
from torch.autograd import gradcheck

from calque.layers.copying import copy_probs, mixture, mixture_loss

SENTENCES, BEAMS, STEPS, SOURCE, WORDS = 2, 3, 4, 5, 7
TOKENS = torch.tensor([[1, 3, 1, 7, 8], [6, 7, 7, 0, 0]])  # 7 and 8 are outside the vocabulary


def parts(*, rows: int = SENTENCES * BEAMS, steps: int = STEPS):
    log_probs = torch.randn(rows, steps, WORDS, dtype=torch.float64).log_softmax(dim=-1)
    gate = torch.randn(rows, steps, dtype=torch.float64)
    attention = torch.randn(rows, steps, SOURCE, dtype=torch.float64).softmax(dim=-1)
    return log_probs, gate, attention


def test_it_is_eq_9_for_every_word() -> None:
    log_probs, gate, attention = parts()
    mixed = mixture(log_probs, gate=gate, attention=attention, tokens=TOKENS).exp()
    assert mixed.shape == (SENTENCES * BEAMS, STEPS, WORDS + SOURCE)
    for row in range(SENTENCES * BEAMS):
        source = TOKENS[row // BEAMS].tolist()
        for step in range(STEPS):
            p = gate[row, step].sigmoid().item()
            for word in range(WORDS + SOURCE):
                generated = log_probs[row, step, word].exp().item() if word < WORDS else 0.0
                copied = sum(attention[row, step, s].item() for s, token in enumerate(source) if token == word)
                assert mixed[row, step, word].item() == pytest.approx(p * generated + (1 - p) * copied, abs=1e-12)
    torch.testing.assert_close(mixed.sum(dim=-1), torch.ones_like(gate))


def test_a_number_without_a_word_is_impossible() -> None:
    log_probs, gate, attention = parts()
    mixed = mixture(log_probs, gate=gate, attention=attention, tokens=TOKENS)
    assert mixed[BEAMS:, :, 8].eq(-torch.inf).all(), "the second sentence has one unknown word"
    assert mixed[:BEAMS, :, 8].isfinite().all()
    assert mixed[..., 9:].eq(-torch.inf).all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients(smoothing: float) -> None:
    log_probs, gate, attention = (part.requires_grad_() for part in parts(rows=SENTENCES, steps=2))
    targets = torch.tensor([[8, 1], [7, 2]])

    def loss(log_probs, gate, attention):
        mixed = mixture(log_probs, gate=gate, attention=attention, tokens=TOKENS)
        return mixture_loss(mixed, targets, smoothing=smoothing, vocabulary=WORDS)

    assert gradcheck(loss, (log_probs, gate, attention))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gate", [-200.0, 200.0])
def test_extremes_are_finite(gate: float, dtype: torch.dtype) -> None:
    """A saturated gate, a word without attention: the loss is large, its gradient finite."""
    log_probs = torch.randn(1, 2, WORDS, dtype=dtype).log_softmax(dim=-1).requires_grad_()
    gates = torch.full((1, 2), gate, dtype=dtype, requires_grad=True)
    attention = torch.tensor([[[1.0, 0, 0, 0, 0]] * 2], dtype=dtype, requires_grad=True)
    mixed = mixture(log_probs, gate=gates, attention=attention, tokens=TOKENS[:1])
    losses = mixture_loss(mixed, torch.tensor([[8, 2]]), smoothing=0.1, vocabulary=WORDS)
    losses.sum().backward()
    assert losses.isfinite().all()
    for part in (log_probs, gates, attention):
        assert part.grad.isfinite().all()


def test_loss_is_minus_the_log_probability() -> None:
    log_probs, gate, attention = parts(rows=SENTENCES)
    mixed = mixture(log_probs, gate=gate, attention=attention, tokens=TOKENS)
    targets = torch.tensor([[1, 7, 8, 2], [6, 7, 3, 0]])
    expected = -mixed.gather(-1, targets[..., None]).squeeze(-1)
    torch.testing.assert_close(mixture_loss(mixed, targets, smoothing=0.0, vocabulary=WORDS), expected)
    smooth = 0.9 * expected - 0.1 * mixed[..., :WORDS].mean(dim=-1)
    torch.testing.assert_close(mixture_loss(mixed, targets, smoothing=0.1, vocabulary=WORDS), smooth)


def test_copy_probs_belong_to_their_sentence() -> None:
    attention = torch.eye(SOURCE)[None].repeat(SENTENCES * BEAMS, 1, 1)
    copied = copy_probs(attention, TOKENS, size=WORDS + SOURCE)
    assert torch.equal(copied.argmax(dim=-1), TOKENS.repeat_interleave(BEAMS, dim=0))


def test_a_gate_in_low_precision_still_learns() -> None:
    """In bfloat16 σ(6.5) is 1: a word that must be copied would have the maximum loss and no gradient."""
    log_probs, _, attention = parts(rows=SENTENCES, steps=1)
    gate = torch.full((SENTENCES, 1), 6.5, dtype=torch.bfloat16, requires_grad=True)
    mixed = mixture(log_probs.float(), gate=gate, attention=torch.ones_like(attention), tokens=TOKENS)
    loss = mixture_loss(mixed, torch.tensor([[8], [7]]), smoothing=0.0, vocabulary=WORDS)
    loss.sum().backward()
    assert loss.max().item() < 10
    assert gate.grad.abs().min().item() > 0.9


def test_attention_that_does_not_sum_to_one_is_normalised() -> None:
    log_probs, gate, attention = parts()
    whole = mixture(log_probs, gate=gate, attention=attention, tokens=TOKENS)
    torch.testing.assert_close(mixture(log_probs, gate=gate, attention=0.3 * attention, tokens=TOKENS), whole)
