"""The highest-scoring label sequences of a sentence. Letters: T words, Y labels, K sequences."""

from typing import NamedTuple

import torch
from torch import Tensor

from calque.layers.crf import Allowed
from calque.layers.output import wide
from calque.models.hidden_markov import HiddenMarkovTagger
from calque.models.tagger import CrfHead, TaggerModel


class PathScores(NamedTuple):
    """The scores of transitions and of the first and last label of a sequence; −∞ for those that are not allowed."""

    transitions: Tensor  # [Y,Y], from the row's label to the column's
    start: Tensor  # [Y]
    end: Tensor  # [Y]

    @classmethod
    def of(cls, model: TaggerModel, *, allowed: Allowed) -> "PathScores":
        """The scores of a tagger's CRF, −∞ where not allowed; all 0 for a softmax head, which has no transitions."""
        if not isinstance(model.head, CrfHead):
            labels = model.sizes.labels
            return cls(torch.zeros(labels, labels), torch.zeros(labels), torch.zeros(labels))
        crf = model.head.crf
        weights = [wide(weight.detach()).cpu() for weight in (crf.transitions, crf.start, crf.end)]
        return cls(
            *(weight.masked_fill(~part.cpu(), -torch.inf) for weight, part in zip(weights, allowed, strict=True))
        )


class ScoredLabels(NamedTuple):
    """A label sequence as ids, and its score."""

    labels: list[int]
    score: float


def best_paths(emissions: Tensor, scores: PathScores, *, count: int) -> list[ScoredLabels]:
    """The `count` label sequences with the highest scores, best first, given emissions [T,Y]; fewer if fewer exist.

    This is the Viterbi algorithm with the K best prefixes for each last label instead of one (Seshadri and Sundberg
    1994). Ties go to the label with the lower id.
    """
    words, labels = emissions.shape
    totals = (scores.start + emissions[0])[None]  # [K,Y]
    previous: list[Tensor] = []  # [K,Y] per word: rank · Y + label of the prefix that each one extends
    for emission in emissions[1:]:
        extended = (totals[:, :, None] + scores.transitions).flatten(0, 1)  # [K·Y,Y]
        values, order = extended.sort(dim=0, descending=True, stable=True)
        totals = values[:count] + emission
        previous.append(order[:count])
    values, order = (totals + scores.end).flatten().sort(descending=True, stable=True)
    paths = []
    for score, place in zip(values[:count].tolist(), order[:count].tolist(), strict=True):
        if score == -torch.inf:
            break
        path = [place % labels]
        for before in reversed(previous):
            place = int(before.flatten()[place])
            path.append(place % labels)
        paths.append(ScoredLabels(path[::-1], score))
    assert all(len(path.labels) == words for path in paths)
    return paths


def best_chains(
    model: HiddenMarkovTagger, scores: Tensor, lengths: Tensor, *, allowed: Allowed | None
) -> list[ScoredLabels]:
    """The two best label sequences of one sentence under a hidden Markov tagger; one if all others are impossible.

    `scores` [1,T,S] are those of the tagger's S states for each word. The second-best sequence is found by
    forbidding the best sequence's label at each word in turn, and taking the best of the results.
    """
    best = model.viterbi(scores, lengths, allowed=allowed)
    words, labels = scores.shape[1], best.labels[0]
    rows = torch.arange(words, device=scores.device)
    others = scores.repeat(words, 1, 1)
    for kind in range(model.kinds):
        others[rows, rows, kind * model.sizes.labels + labels] = -torch.inf
    second = model.viterbi(others, lengths.expand(words), allowed=allowed)
    row = int(second.scores.argmax())
    found = [(best, 0), (second, row)]
    return [
        ScoredLabels(paths.labels[place].tolist(), float(paths.scores[place]))
        for paths, place in found
        if paths.scores[place] > -torch.inf
    ]
