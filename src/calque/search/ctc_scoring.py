"""Joint decoding: the step of an attention decoder, interpolated with the prefix probabilities of CTC.

Watanabe et al. 2017, §III-B: a hypothesis g that is extended by a token c scores

    (1 − λ) log P_att(c | g) + λ (log ψ(g c) − log ψ(g))

where ψ(h) = Σ P(texts that begin with h) under CTC, so that a complete text scores (1 − λ) log P_att + λ log P_ctc.

Letters: B recordings, K beams, N = B·K hypotheses, S positions, V vocabulary.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.search.step import Marks, Step, StepOutput

_IMPOSSIBLE = -1e30  # instead of −∞, whose differences are not numbers


class CtcState(NamedTuple):
    """The state of joint decoding."""

    inner: Any  # of the attention decoder
    in_token: Tensor  # [N,S], log-probability of all paths up to a position that give the prefix, ending in its token
    in_blank: Tensor  # [N,S], the same, ending in a blank
    following: Tensor  # [N,V], log ψ of the prefix extended by each token
    length: Tensor  # [N], tokens of the prefix
    last: Tensor  # [N], its last token


class CtcContext(NamedTuple):
    """The context of joint decoding; one row per recording."""

    inner: Any
    log_probs: Tensor  # [B,S,V], 0 for blanks and −∞ for tokens after the end of a recording
    ends: Tensor  # [B], the last position of each recording


def start_joint(
    inner: Any, context: Any, log_probs: Tensor, lengths: Tensor, *, blank: int
) -> tuple[CtcState, CtcContext]:
    """The state and context of joint decoding, given CTC's log-probabilities [B,S,V] and lengths [B] on the device."""
    outside = torch.arange(log_probs.shape[1], device=log_probs.device)[None] >= lengths[:, None]
    masked = log_probs.masked_fill(outside[..., None], _IMPOSSIBLE)
    masked[..., blank] = log_probs[..., blank].masked_fill(outside, 0)
    in_blank = masked[..., blank].cumsum(dim=1)
    rows, zeros = len(lengths), torch.zeros_like(lengths)
    state = CtcState(
        inner,
        torch.full_like(in_blank, _IMPOSSIBLE),
        in_blank,
        torch.zeros_like(log_probs[:, 0]),
        zeros,
        torch.full((rows,), -1, dtype=torch.long, device=lengths.device),
    )
    return state, CtcContext(context, masked, lengths - 1)


def joint_step(step: Step, *, weight: float, marks: Marks, blank: int) -> Step:
    """The step function of an attention decoder, interpolated with CTC with weight λ."""

    def joint(tokens: Tensor, state: CtcState, context: CtcContext) -> tuple[StepOutput, CtcState]:
        output, inner = step(tokens, state.inner, context.inner)
        beams = len(tokens) // len(context.ends)
        is_first = tokens == marks.start
        in_token, in_blank = _extend(state, context.log_probs, tokens, blank=blank)
        in_token = torch.where(is_first[:, None], state.in_token, in_token)
        in_blank = torch.where(is_first[:, None], state.in_blank, in_blank)
        prefix = torch.where(is_first, 0, state.following.gather(1, tokens[:, None]).squeeze(1))  # log ψ(g)
        length, last = state.length + (~is_first).long(), torch.where(is_first, -1, tokens)
        following = _following(in_token, in_blank, context.log_probs, length=length, last=last)
        ends = context.ends.repeat_interleave(beams)[:, None]
        whole = torch.logaddexp(in_token.gather(1, ends), in_blank.gather(1, ends))  # [N,1]
        following[:, marks.end] = whole.squeeze(1)
        gained = (following - prefix[:, None]).masked_fill(following <= _IMPOSSIBLE / 2, -torch.inf)
        scores = (1 - weight) * output.log_probs + weight * gained.clamp(max=0).to(output.log_probs.dtype)
        return StepOutput(scores, output.attention), CtcState(inner, in_token, in_blank, following, length, last)

    return joint


def prefix_log_prob(log_probs: Tensor, tokens: Sequence[int], *, blank: int) -> float:
    """log ψ(tokens), the log-probability that a text begins with these tokens, given CTC's log-probabilities [S,V]."""
    if not tokens:
        return 0.0
    state, context = start_joint(
        None, None, log_probs[None], torch.tensor([len(log_probs)], device=log_probs.device), blank=blank
    )
    for token in tokens[:-1]:
        last = torch.tensor([token], device=log_probs.device)
        in_token, in_blank = _extend(state, context.log_probs, last, blank=blank)
        state = state._replace(in_token=in_token, in_blank=in_blank, length=state.length + 1, last=last)
    following = _following(state.in_token, state.in_blank, context.log_probs, length=state.length, last=state.last)
    log_prob = float(following[0, tokens[-1]])
    return log_prob if log_prob > _IMPOSSIBLE / 2 else -math.inf


def _previous(state_blank: Tensor, state_token: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities [N,S] of prefixes just before each position: of paths ending in a blank, and of all paths."""
    first = torch.where(length == 0, 0.0, _IMPOSSIBLE).to(state_blank.dtype)[:, None]
    blank = torch.cat([first, state_blank[:, :-1]], dim=1)
    total = torch.cat([first, torch.logaddexp(state_blank, state_token)[:, :-1]], dim=1)
    return blank, total


def _extend(state: CtcState, log_probs: Tensor, tokens: Tensor, *, blank: int) -> tuple[Tensor, Tensor]:
    """Log-probabilities [N,S] of prefixes extended by a token each: of paths ending in the token, and in a blank."""
    after_blank, after_any = _previous(state.in_blank, state.in_token, state.length)
    entering = torch.where((tokens == state.last)[:, None], after_blank, after_any)
    emitted = _emitted(log_probs, tokens)
    blanks = log_probs[..., blank].repeat_interleave(len(tokens) // len(log_probs), dim=0)
    n = b = torch.full_like(entering[:, 0], _IMPOSSIBLE)
    in_token, in_blank = [], []
    for position in range(log_probs.shape[1]):
        n, b = (
            (torch.logaddexp(n, entering[:, position]) + emitted[:, position]).clamp(min=_IMPOSSIBLE),
            (torch.logaddexp(n, b) + blanks[:, position]).clamp(min=_IMPOSSIBLE),
        )
        in_token.append(n)
        in_blank.append(b)
    return torch.stack(in_token, dim=1), torch.stack(in_blank, dim=1)


def _following(in_token: Tensor, in_blank: Tensor, log_probs: Tensor, *, length: Tensor, last: Tensor) -> Tensor:
    """The log-probability [N,V] that a text begins with a prefix g and then the token c, log ψ(g c), for every c.

    ψ is a sum over the positions where c may first occur. Beams are processed one at a time, since a tensor [N,S,V] for
    all of them would be by far the largest in decoding.
    """
    after_blank, after_any = _previous(in_blank, in_token, length)
    of_beams = after_any.view(len(log_probs), -1, after_any.shape[1]).unbind(dim=1)  # K of [B,S]
    following = torch.stack([(after[..., None] + log_probs).logsumexp(dim=1) for after in of_beams], dim=1).flatten(
        0, 1
    )
    again = last.clamp(min=0)[:, None]
    repeated = (after_blank + _emitted(log_probs, again.squeeze(1))).logsumexp(dim=1, keepdim=True)
    kept = following.gather(1, again)
    return following.scatter(1, again, torch.where((last >= 0)[:, None], repeated, kept)).clamp(min=_IMPOSSIBLE)


def _emitted(log_probs: Tensor, tokens: Tensor) -> Tensor:
    """For each hypothesis, the log-probability of its token in `tokens` at every position of its recording: [N,S]."""
    index = tokens.view(len(log_probs), 1, -1).expand(-1, log_probs.shape[1], -1)  # [B,S,K]
    return log_probs.gather(2, index).transpose(1, 2).flatten(0, 1)
