"""The linear-chain conditional random field: label sequences are scored and normalised as a whole.

Letters: B sentences, T words, Y labels.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.output import wide
from calque.tensors import length_mask


class Allowed(NamedTuple):
    """Boolean tensors that say which labels may follow each other, and which may begin or end a sentence."""

    transitions: Tensor  # [Y,Y], from the label of the row to the label of the column
    start: Tensor  # [Y]
    end: Tensor  # [Y]


class BestPaths(NamedTuple):
    """The highest-scoring label sequence of every sentence."""

    labels: Tensor  # [B,T], 0 after a sentence's last word
    scores: Tensor  # [B]


class LinearChainCRF(nn.Module):
    """P(y | x) = exp(score(x, y)) / Z(x), with Z(x) the sum over all label sequences (Lafferty et al. 2001).

        score(x, y) = start[y₁] + Σₜ scores[t, yₜ] + Σₜ transitions[yₜ₋₁, yₜ] + end[y_T]

    where a network computes `scores` from the sentence (Lample et al. 2016, §2.2). Scores and labels after a sentence's
    last word are ignored; a sentence without words has only the empty label sequence, with score 0. Transitions are
    initialised to 0, so that the labels of a sentence are independent of each other at first.
    """

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(labels, labels))  # from the row's label to the column's
        self.start = nn.Parameter(torch.zeros(labels))
        self.end = nn.Parameter(torch.zeros(labels))

    def loss(self, scores: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
        """−log P(labels | x) [B], given scores [B,T,Y], labels [B,T] and lengths [B]."""
        return self.log_partition(scores, lengths) - self.path_score(scores, labels, lengths)

    def log_partition(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """log Z [B]: the logarithm of the sum of exp(score) over all label sequences, given scores [B,T,Y]."""
        scores, mask = _masked(scores, lengths)
        total = (self._forward_scores(scores, mask)[-1] + wide(self.end)).logsumexp(dim=-1)
        return total.masked_fill(~mask[:, 0], 0)

    def path_score(self, scores: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
        """The score [B] of one label sequence per sentence, labels [B,T]."""
        words = labels.shape[1]
        scores, mask = _masked(scores, lengths)
        labels = F.pad(labels, (0, mask.shape[1] - words)).masked_fill(~mask, 0)
        last_labels = labels.gather(1, (mask.sum(dim=1, keepdim=True) - 1).clamp(min=0)).squeeze(1)
        emissions = scores.gather(2, labels[..., None]).squeeze(2).sum(dim=1)
        steps = wide(self.transitions)[labels[:, :-1], labels[:, 1:]].masked_fill(~mask[:, 1:], 0).sum(dim=1)
        ends = wide(self.start)[labels[:, 0]] + wide(self.end)[last_labels]
        return emissions + steps + ends.masked_fill(~mask[:, 0], 0)

    def marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """P(yₜ = y | x) [B,T,Y] by the forward-backward algorithm; 0 after a sentence's last word.

        They are the derivative of log Z with respect to the scores.
        """
        totals, mask = self._totals(scores, lengths)
        return totals.softmax(dim=-1).masked_fill(~mask[..., None], 0)[:, : scores.shape[1]]

    def log_marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """log P(yₜ = y | x) [B,T,Y]; 0 after a sentence's last word."""
        totals, mask = self._totals(scores, lengths)
        return totals.log_softmax(dim=-1).masked_fill(~mask[..., None], 0)[:, : scores.shape[1]]

    def viterbi(self, scores: Tensor, lengths: Tensor, *, allowed: Allowed | None = None) -> BestPaths:
        """The label sequence with the highest score for every sentence, among those that are `allowed`.

        Ties go to the label with the lower id. If no sequence of a sentence is allowed, its score is −∞.
        """
        words = scores.shape[1]
        scores, mask = _masked(scores, lengths)
        transitions, start, end = self._restricted(allowed)
        stay = torch.arange(scores.shape[2], device=scores.device)
        best, previous = start + scores[:, 0], []
        for emission, is_word in zip(scores.unbind(1)[1:], mask.unbind(1)[1:], strict=True):
            extended = (best[:, :, None] + transitions).max(dim=1)
            best = torch.where(is_word[:, None], extended.values + emission, best)
            previous.append(torch.where(is_word[:, None], extended.indices, stay))
        total, label = (best + end).max(dim=1)
        path = [label]
        for before in reversed(previous):
            label = before.gather(1, label[:, None]).squeeze(1)
            path.append(label)
        path_labels = torch.stack(path[::-1], dim=1).masked_fill(~mask, 0)
        return BestPaths(path_labels[:, :words], total.masked_fill(~mask[:, 0], 0))

    def _totals(self, scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """For each word and label, the log-sum-exp of the scores of all label sequences with that label there, [B,T,Y].

        The second result is the mask [B,T] of words. T is at least 1, even for sentences without words.
        """
        scores, mask = _masked(scores, lengths)
        forward = torch.stack(self._forward_scores(scores, mask), dim=1)
        backward = torch.stack(self._backward_scores(scores, mask), dim=1)
        return forward + backward, mask

    def _forward_scores(self, scores: Tensor, mask: Tensor) -> list[Tensor]:
        """For each word, [B,Y]: the log-sum-exp of the scores of all labellings up to this word that give it label y.

        After a sentence's last word, the values are repeated.
        """
        transitions = wide(self.transitions)
        totals = [wide(self.start) + scores[:, 0]]
        for emission, is_word in zip(scores.unbind(1)[1:], mask.unbind(1)[1:], strict=True):
            extended = (totals[-1][:, :, None] + transitions).logsumexp(dim=1) + emission
            totals.append(torch.where(is_word[:, None], extended, totals[-1]))
        return totals

    def _backward_scores(self, scores: Tensor, mask: Tensor) -> list[Tensor]:
        """For each word, [B,Y]: the log-sum-exp of the scores of all labellings of later words, if it has label y."""
        transitions = wide(self.transitions)
        totals = [wide(self.end).expand_as(scores[:, 0])]
        for emission, is_word in zip(scores.unbind(1)[:0:-1], mask.unbind(1)[:0:-1], strict=True):
            extended = (transitions + (emission + totals[-1])[:, None]).logsumexp(dim=2)
            totals.append(torch.where(is_word[:, None], extended, totals[-1]))
        return totals[::-1]

    def _restricted(self, allowed: Allowed | None) -> tuple[Tensor, Tensor, Tensor]:
        """The scores of transitions, first labels and last labels; −∞ for those not in `allowed` (None allows all)."""
        weights = (wide(self.transitions), wide(self.start), wide(self.end))
        if allowed is None:
            return weights
        transitions, start, end = (
            weight.masked_fill(~is_allowed.to(weight.device, non_blocking=True), -torch.inf)
            for weight, is_allowed in zip(weights, allowed, strict=True)
        )
        return transitions, start, end


def allowed_transitions(labels: Sequence[str]) -> Allowed:
    """The transitions of well-formed label sequences in BIO (IOB2), or in IOBES if any label has the prefix E or S.

    In BIO, I-X must follow B-X or I-X. In IOBES, I-X and E-X must follow B-X or I-X, and after B-X or I-X must come I-X
    or E-X. Labels without a prefix are treated as O. A bare B, I, E or S counts as a prefix only if all labels are O,
    B, I, E or S.

    A type X is incomplete if it has I-X or E-X but no B-X or, in IOBES, B-X or I-X but no E-X. The labels of incomplete
    types are treated as O. If at least half of the types are incomplete, the labels follow another scheme (such as
    IOB1), and any label may follow any other.
    """
    is_untyped = set(labels) <= {"O", "B", "I", "E", "S"}
    parts = [_parts(label, is_untyped=is_untyped) for label in labels]
    closes = any(prefix in ("E", "S") for prefix, _ in parts)  # IOBES: the last word of a span is marked
    needed = {("B", kind) for prefix, kind in parts if prefix in ("I", "E")}
    needed |= {("E", kind) for prefix, kind in parts if prefix in ("B", "I") and closes}
    incomplete = {kind for _, kind in needed - set(parts)}
    if 2 * len(incomplete) >= len({kind for prefix, kind in parts if prefix}):
        return Allowed(*(torch.ones(size, dtype=torch.bool) for size in ((len(labels),) * 2, len(labels), len(labels))))
    parts = [("", kind) if kind in incomplete else (prefix, kind) for prefix, kind in parts]

    def may_follow(before: tuple[str, str], after: tuple[str, str]) -> bool:
        is_same_span = before[0] in ("B", "I") and after[0] in ("I", "E") and before[1] == after[1]
        return is_same_span or not (after[0] in ("I", "E") or (closes and before[0] in ("B", "I")))

    outside = ("", "")
    return Allowed(
        torch.tensor([[may_follow(before, after) for after in parts] for before in parts], dtype=torch.bool),
        torch.tensor([may_follow(outside, after) for after in parts], dtype=torch.bool),
        torch.tensor([may_follow(before, outside) for before in parts], dtype=torch.bool),
    )


def _parts(label: str, *, is_untyped: bool) -> tuple[str, str]:
    """The prefix (B, I, E or S) and the type of a label such as B-PER; an empty prefix if the label has none.

    A letter without a type, such as B, counts as a prefix only if `is_untyped`.
    """
    prefix, hyphen, kind = label.partition("-")
    return (prefix, kind) if prefix in ("B", "I", "E", "S") and (hyphen or is_untyped) else ("", label)


def _masked(scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The scores in at least float32, 0 after a sentence's last word, and the mask [B,T] of words; T is at least 1."""
    mask = length_mask(lengths.to(scores.device, non_blocking=True), size=scores.shape[1])
    scores = wide(scores).masked_fill(~mask[..., None], 0)
    missing = max(0, 1 - scores.shape[1])
    return F.pad(scores, (0, 0, 0, missing)), F.pad(mask, (0, missing))
