"""Connectionist temporal classification (Graves et al. 2006): the probability of a text over all its alignments.

A path has a token or a blank at every position; collapsing its repetitions and then removing blanks gives the text. The
loss is −log Σ P(path) over all paths of a text, computed by the forward-backward algorithm over the text with a blank
before, between and after its tokens: z = _ y₁ _ y₂ _ … yᵤ _.

Letters: B recordings, S positions, U tokens, Z = 2 U + 1 states, V vocabulary.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from calque.tensors import length_mask

BLANK = 0  # the id of padding, which no text contains

_IMPOSSIBLE = -1e30  # instead of −∞, whose differences are not numbers


def ctc_losses(log_probs: Tensor, tokens: Tensor, lengths: Tensor, token_lengths: Tensor) -> Tensor:
    """−log P(tokens) [B], given log-probabilities [B,S,V] and tokens [B,U]; both lengths are on the CPU or the device.

    A text with too many tokens for its positions has loss 0 and no gradient, as with PyTorch's `zero_infinity`.
    PyTorch's own loss is used, except on a GPU if lengths are there too, as PyTorch's loss reads them on the host, or
    if torch is set to use deterministic algorithms, as the gradient of PyTorch's loss is not deterministic there.
    """
    if log_probs.device.type != "cpu" and (lengths.is_cuda or torch.are_deterministic_algorithms_enabled()):
        return deterministic_ctc_losses(log_probs, tokens, lengths, token_lengths)
    width = max(1, int(token_lengths.max()))
    return F.ctc_loss(
        log_probs.transpose(0, 1),
        tokens[:, :width],
        lengths,
        token_lengths,
        blank=BLANK,
        reduction="none",
        zero_infinity=True,
    )


def deterministic_ctc_losses(log_probs: Tensor, tokens: Tensor, lengths: Tensor, token_lengths: Tensor) -> Tensor:
    """`ctc_losses` with bit-identical results in every call: the order of all additions is fixed."""
    losses: Tensor = _ForwardBackward.apply(log_probs, tokens, lengths, token_lengths)  # type: ignore[no-untyped-call]
    return losses


class States(NamedTuple):
    """The CTC states of texts (tokens and blanks): their labels, and which ones can skip the state before them."""

    labels: Tensor  # [B,Z]
    skips: Tensor  # [B,Z], true for a token that differs from the token before it
    mask: Tensor  # [B,Z], true for states of the text, false for padding
    last: Tensor  # [B], the number of states


def states_of(tokens: Tensor, token_lengths: Tensor) -> States:
    """The CTC states of texts [B,U], i.e. their tokens and blanks, given their lengths [B] on the same device."""
    rows, width = tokens.shape
    labels = tokens.new_full((rows, 2 * width + 1), BLANK)
    labels[:, 1::2] = tokens
    skips = torch.zeros_like(labels, dtype=torch.bool)
    skips[:, 3::2] = tokens[:, 1:] != tokens[:, :-1]
    last = 2 * token_lengths + 1
    return States(labels, skips, length_mask(last, size=labels.shape[1]), last)


class _ForwardBackward(torch.autograd.Function):
    """The CTC loss −log P of texts, by the forward-backward algorithm, with its gradient.

    For a label's log-probability at a position, the gradient is −Σ α β / P over all states with this label.
    """

    @staticmethod
    def forward(context: Any, log_probs: Tensor, tokens: Tensor, lengths: Tensor, token_lengths: Tensor) -> Tensor:
        device_lengths = lengths.to(log_probs.device, non_blocking=True)
        states = states_of(tokens, token_lengths.to(log_probs.device, non_blocking=True))
        emitted = log_probs.gather(2, states.labels[:, None].expand(-1, log_probs.shape[1], -1))  # [B,S,Z]
        emitted = emitted.masked_fill(~states.mask[:, None], _IMPOSSIBLE)
        alphas = _forward(emitted, states)
        final = alphas.gather(1, (device_lengths - 1)[:, None, None].expand(-1, 1, alphas.shape[2])).squeeze(1)
        ends = final.gather(1, torch.stack([states.last - 1, (states.last - 2).clamp(min=0)], dim=1))
        ends = torch.stack([ends[:, 0], ends[:, 1].masked_fill(states.last == 1, _IMPOSSIBLE)], dim=1)
        totals = ends.logsumexp(dim=1)
        is_possible = totals > _IMPOSSIBLE / 2
        context.save_for_backward(emitted, alphas, totals, is_possible, device_lengths, *states)
        context.vocabulary = log_probs.shape[2]
        return torch.where(is_possible, -totals, 0)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        emitted, alphas, totals, is_possible, lengths, *parts = context.saved_tensors
        states = States(*parts)
        betas = _backward(emitted, states, lengths)
        occupied = (alphas + betas - totals[:, None, None]).exp()  # [B,S,Z], the posterior of each state
        inside = length_mask(lengths, size=emitted.shape[1]) & is_possible[:, None]
        occupied = occupied.masked_fill(~(inside[..., None] & states.mask[:, None]), 0)
        scaled = -occupied * gradient[:, None, None]
        by_label = F.one_hot(states.labels, context.vocabulary).to(scaled.dtype)  # [B,Z,V]
        return torch.bmm(scaled, by_label), None, None, None  # a product, as a scattered sum has no fixed order


def _shift(values: Tensor, by: int) -> Tensor:
    """Log-probabilities [B,Z] of states, shifted `by` states right (left if negative); gaps are filled with log 0."""
    if by > 0:
        return F.pad(values, (by, 0), value=_IMPOSSIBLE)[:, : values.shape[1]]
    return F.pad(values, (0, -by), value=_IMPOSSIBLE)[:, -by:]


def _sum3(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    summed: Tensor = torch.logaddexp(torch.logaddexp(first, second), third)
    return summed.clamp(min=_IMPOSSIBLE)


def _forward(emitted: Tensor, states: States) -> Tensor:
    """log α [B,S,Z]: the log of the summed probabilities of all paths up to position s that are in state z there.

    `emitted` [B,S,Z] are the log-probabilities of the states' labels; α includes that of the label at position s. The
    states are the U tokens of a text with a blank before, between and after them, so that Z = 2 U + 1.
    """
    alpha = torch.full_like(emitted[:, 0], _IMPOSSIBLE)
    alpha[:, :2] = emitted[:, 0, :2]
    alphas = [alpha]
    for position in range(1, emitted.shape[1]):
        skipping = _shift(alpha, 2).masked_fill(~states.skips, _IMPOSSIBLE)
        alpha = (_sum3(alpha, _shift(alpha, 1), skipping) + emitted[:, position]).clamp(min=_IMPOSSIBLE)
        alphas.append(alpha)
    return torch.stack(alphas, dim=1)


def _backward(emitted: Tensor, states: States, lengths: Tensor) -> Tensor:
    """log β [B,S,Z]: the log of the summed probabilities of all ways to complete a path in state z at position s.

    Only the labels at positions after s are included, since α includes the label at s (see `_forward`). The Z states
    are the tokens of a text with a blank before, between and after them.
    """
    places = torch.arange(emitted.shape[2], device=emitted.device)[None]
    is_end = (places == states.last[:, None] - 1) | ((places == states.last[:, None] - 2) & (states.last[:, None] > 1))
    ending = torch.zeros_like(emitted[:, 0]).masked_fill(~is_end, _IMPOSSIBLE)
    beta = ending
    betas = [beta]
    skipped_to = F.pad(states.skips, (0, 2))[:, 2:]  # the state two further on may be entered from here
    for position in reversed(range(emitted.shape[1] - 1)):
        ahead = (beta + emitted[:, position + 1]).clamp(min=_IMPOSSIBLE)
        skipping = _shift(ahead, -2).masked_fill(~skipped_to, _IMPOSSIBLE)
        inside = _sum3(ahead, _shift(ahead, -1), skipping)
        beta = torch.where((position < lengths - 1)[:, None], inside, ending)
        betas.append(beta)
    return torch.stack(betas[::-1], dim=1)


def force_align(log_probs: Tensor, tokens: list[int]) -> list[tuple[int, int]] | None:
    """The span of positions (first, last + 1) of each token on the best path; None if there are too few positions.

    `log_probs` [S,V] are the log-probabilities of a single recording.
    """
    size = log_probs.shape[0]
    if not tokens:
        return []
    device = log_probs.device
    states = states_of(torch.tensor([tokens], device=device), torch.tensor([len(tokens)], device=device))
    emitted = log_probs[:, states.labels[0]]  # [S,Z]
    best = torch.full_like(emitted[:1], _IMPOSSIBLE)
    best[0, :2] = emitted[0, :2]
    steps = []
    for position in range(1, size):
        skipping = _shift(best, 2).masked_fill(~states.skips, _IMPOSSIBLE)
        values, step = torch.stack([best, _shift(best, 1), skipping], dim=-1).max(dim=-1)
        steps.append(step[0])
        best = values + emitted[position]
    state = best.shape[1] - 1 if best[0, -1] >= best[0, -2] else best.shape[1] - 2
    if float(best[0, state]) <= _IMPOSSIBLE / 2:
        return None
    path = [state]
    for step in reversed(torch.stack(steps).tolist() if steps else []):
        path.append(path[-1] - step[path[-1]])
    path.reverse()
    spans: list[tuple[int, int]] = []
    for number in range(len(tokens)):
        places = [place for place, state in enumerate(path) if state == 2 * number + 1]
        spans.append((places[0], places[-1] + 1))
    return spans
