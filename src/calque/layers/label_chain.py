"""Second-order label chains: a label depends on the two labels before it, as in a trigram model.

Letters: B sentences, T words, Y labels, K kinds of words, U histories. The *history* of a word is the label two words
back, or that there is none (U = 1 + Y). In a first-order chain, which is computed in the same way, all words have the
same history (U = 1).
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from calque.layers.crf import Allowed, BestPaths
from calque.tensors import length_mask


class ChainScores(NamedTuple):
    """The scores of transitions between labels, which also depend on the kinds of the words, such as their case."""

    start: Tensor  # [K,Y], of the first label of a sentence
    steps: Tensor  # [K',K,K,U,Y,Y], of a label (last axis), given the history and the label before; by three kinds
    ends: Tensor  # [K',K,U,Y], of the end of a sentence, by the kinds of its last two words

    # K' = K for the second order, 1 for the first, which forgets the kind of the word before the last one.


class LabelChain(NamedTuple):
    """The scores of all label sequences of sentences; −∞ for those that are impossible.

    score(y) = start[y₁] + Σₜ emissions[t, yₜ] + Σₜ steps[history, yₜ₋₁, yₜ] + ends[history, y_T]

    Positions after a sentence's last word are ignored; a sentence without words has only the empty label sequence, with
    score 0.
    """

    emissions: Tensor  # [B,T,Y]
    kinds: Tensor  # [B,T], from 0 to K − 1
    lengths: Tensor  # [B]
    transitions: ChainScores

    def log_partition(self) -> Tensor:
        """[B], the logarithm of the sum of exp(score) over all label sequences."""
        totals = self._forward()
        ends = torch.stack([(total + self._end(t)).flatten(1).logsumexp(1) for t, total in enumerate(totals)])
        last = (self._lengths - 1).clamp(min=0)
        return ends.gather(0, last[None]).squeeze(0).masked_fill(self._lengths == 0, 0)

    def log_marginals(self) -> Tensor:
        """log P(yₜ = y) [B,T,Y]; 0 after a sentence's last word."""
        both = torch.stack(
            [(a + b).logsumexp(dim=1) for a, b in zip(self._forward(), self._backward(), strict=True)], dim=1
        )
        return both.log_softmax(dim=-1).masked_fill(~self._mask[..., None], 0)

    def viterbi(self, *, allowed: Allowed | None = None) -> BestPaths:
        """The highest-scoring label sequence among those that are `allowed`; ties go to the label with the lower id."""
        _, words, labels = self.emissions.shape
        if allowed is None:
            start, pair, end = (self.emissions.new_zeros(()) for _ in range(3))
        else:
            start, pair, end = (
                torch.zeros_like(part, dtype=self.emissions.dtype).masked_fill(~part, -torch.inf)
                for part in (
                    part.to(self.emissions.device) for part in (allowed.start, allowed.transitions, allowed.end)
                )
            )
        best = self._first() + start
        finals = [best + self._end(0) + end]
        pointers: list[Tensor] = []  # [B,U,Y] per step: the history and label, history · Y + label, before each one
        for t in range(1, words):
            joint = best[..., None] + self._step(t) + pair  # [B,U,Y,Y]
            if best.shape[1] == 1:
                values, before = joint.flatten(1, 2).max(dim=1, keepdim=True)  # [B,1,Y]
            else:
                values, history = joint.max(dim=1)  # [B,Y,Y]
                before = F.pad(history * labels + torch.arange(labels, device=history.device)[:, None], (0, 0, 1, 0))
                values = _after_the_first(values)
            best = values + self.emissions[:, t, None]
            pointers.append(before)
            finals.append(best + self._end(t) + end)
        return self._traced(finals, pointers)

    def _traced(self, finals: list[Tensor], pointers: list[Tensor]) -> BestPaths:
        rows, words, labels = self.emissions.shape
        scores, places = torch.stack(finals, dim=1).flatten(2).max(dim=2)  # [B,T]
        last = (self._lengths - 1).clamp(min=0)
        path = self.emissions.new_zeros((rows, words), dtype=torch.long)
        place = places[:, -1]
        for t in reversed(range(words)):
            place = torch.where(last == t, places[:, t], place)
            path[:, t] = place % labels
            if t:
                previous = pointers[t - 1].flatten(1).gather(1, place[:, None]).squeeze(1)
                place = torch.where(last >= t, previous, place)
        total = scores.gather(1, last[:, None]).squeeze(1).masked_fill(self._lengths == 0, 0)
        return BestPaths(path.masked_fill(~self._mask, 0), total)

    def _forward(self) -> list[Tensor]:
        """For each word, [B,U,Y]: the log-sum-exp of the scores of all labellings of the words up to this one.

        Axis U is the previous word's label (0: *no label*; a first-order chain has U = 1), axis Y the word's own.
        """
        totals = [self._first()]
        for t in range(1, self.emissions.shape[1]):
            reached = (totals[-1][..., None] + self._step(t)).logsumexp(dim=1) + self.emissions[:, t, None]  # [B,Y,Y]
            is_second_order = totals[-1].shape[1] > 1
            totals.append(_after_the_first(reached) if is_second_order else reached.logsumexp(dim=1, keepdim=True))
        return totals

    def _backward(self) -> list[Tensor]:
        """For each word, [B,U,Y]: the log-sum-exp of the scores of all labellings of the words after it.

        The label of the previous word (axis U, as in `_forward`) and that of the word itself (axis Y) are given.
        """
        words = self.emissions.shape[1]
        totals = [self._end(words - 1)]
        for t in range(words - 1, 0, -1):
            following = totals[-1][:, 1:] if totals[-1].shape[1] > 1 else totals[-1]  # [B,Y,Y] or [B,1,Y]
            following = following + self.emissions[:, t, None]
            extended = (self._step(t) + following[:, None]).logsumexp(dim=3)
            goes_on = (self._lengths > t)[:, None, None]
            totals.append(torch.where(goes_on, extended, self._end(t - 1)))
        return totals[::-1]

    def _first(self) -> Tensor:
        """The scores [B,U,Y] of the first word's label (axis Y); −∞ unless the label before (axis U) is *no label*."""
        scores = self.transitions.start[self.kinds[:, 0]] + self.emissions[:, 0]
        return F.pad(scores[:, None], (0, 0, 0, self.transitions.ends.shape[2] - 1), value=-torch.inf)

    def _step(self, t: int) -> Tensor:
        """The scores [B,U,Y,Y] of the label of word t (last axis), given those of words t − 2 (axis U) and t − 1."""
        return self.transitions.steps[self._before(t - 1), self.kinds[:, t - 1], self.kinds[:, t]]

    def _end(self, t: int) -> Tensor:
        """The scores [B,U,Y] of ending a sentence after word t, given the labels of words t − 1 (axis U) and t."""
        return self.transitions.ends[self._before(t), self.kinds[:, t]]

    def _before(self, t: int) -> Tensor:
        """The kind [B] of word t − 1, such as its case; 0 if it has no effect: if t = 0 or the chain is first-order."""
        is_known = t > 0 and len(self.transitions.steps) > 1
        return self.kinds[:, t - 1] if is_known else torch.zeros_like(self.kinds[:, t])

    @property
    def _lengths(self) -> Tensor:
        return self.lengths.to(self.emissions.device, non_blocking=True)

    @property
    def _mask(self) -> Tensor:
        return length_mask(self._lengths, size=self.emissions.shape[1])


def _after_the_first(scores: Tensor) -> Tensor:
    """Scores [B,Y,Y] of pairs of labels, extended to [B,1+Y,Y] by −∞ for pairs whose first label is *no label*."""
    return F.pad(scores, (0, 0, 1, 0), value=-torch.inf)
