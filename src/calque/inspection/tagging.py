"""What a tagger computes for the labels of one sentence: probabilities, scores, best sequences, saliency, attention.

Letters: T words, Y labels.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from calque.engine.engine import lock_of
from calque.engine.tagger import Sentence, Tagger, as_sentence
from calque.errors import TextError
from calque.inspection.attention_maps import AttentionMap, AttentionRecorder
from calque.inspection.label_paths import PathScores, ScoredLabels, best_chains, best_paths
from calque.inspection.saliency import ONE, attributions, midpoints
from calque.inspection.translation import Saliency
from calque.layers.crf import Allowed
from calque.layers.observers import observe_attention
from calque.layers.output import wide
from calque.models.hidden_markov import HiddenMarkovTagger
from calque.models.tagger import CrfHead
from calque.text import UNK


class LabelPath(NamedTuple):
    """A label sequence for a sentence, with its score and log-probability."""

    labels: list[str]  # inside the model
    score: float  # of the whole sequence: emissions, and the transitions of a CRF
    log_prob: float  # the score minus the logarithm of the sum over all sequences


class Transitions(NamedTuple):
    """The scores that a CRF adds for neighbouring labels, and those of the first and the last label."""

    weights: Tensor  # [Y,Y], from the row's label to the column's
    start: Tensor  # [Y]
    end: Tensor  # [Y]
    allowed: Allowed  # what predictions may use


class TaggingView(NamedTuple):
    """What a tagger computed for one sentence.

    `labels` are those that the model uses internally. They differ from the predicted ones if the model labels spans in
    another scheme than the corpus.
    """

    words: list[str]
    columns: dict[str, list[str]]  # further columns that the model reads
    unknown: list[int]  # indices of the words that share the vector of the unknown word
    labels: list[str]  # the names of the Y labels
    predicted: list[str]  # the label of each word, as the tagger returns it
    marginals: Tensor  # [T,Y], the probability of every label of every word
    emissions: Tensor  # [T,Y], the network's score of every label of every word
    transitions: Transitions | None  # of a CRF
    best: LabelPath
    runner_up: LabelPath | None  # the second-best sequence; None if there is no other
    maps: list[AttentionMap]
    saliency: list[Saliency]  # [T,T], of the word in the column for the label of the word in the row

    @property
    def changes(self) -> list[int]:
        """The indices of the words whose label differs in the runner-up."""
        if self.runner_up is None:
            return []
        pairs = zip(self.best.labels, self.runner_up.labels, strict=True)
        return [index for index, (label, other) in enumerate(pairs) if label != other]


class _Scores(NamedTuple):
    """What the tagger computes for a sentence in one forward pass."""

    emissions: Tensor  # [T,Y]
    marginals: Tensor  # [T,Y]
    best: ScoredLabels
    runner_up: ScoredLabels | None
    log_partition: float
    maps: list[AttentionMap]


def inspect_tagging(
    tagger: Tagger, text: str | Sequence[str] | Sentence, *, saliency: bool | None = None
) -> TaggingView:
    """Labels a sentence, and returns all that the tagger computed for it.

    By default, `saliency` is computed only if the model has no attention; a hidden Markov tagger has neither.

    >>> view = inspect_tagging(calque.load("runs/upos"), "They watch .")
    >>> view.predicted, view.runner_up.labels
    (['PRON', 'VERB', 'PUNCT'], ['PRON', 'NOUN', 'PUNCT'])
    """
    sentence = as_sentence(text)
    if not sentence.words:
        raise TextError("the sentence has no words: there is nothing to inspect")
    with lock_of(tagger.model):
        is_chain = isinstance(tagger.model, HiddenMarkovTagger)
        scores = _read_chain(tagger, sentence) if is_chain else _read(tagger, sentence)
        wants_saliency = not is_chain and (not scores.maps if saliency is None else saliency)
        contributions = _saliency(tagger, sentence, scores.best.labels) if wants_saliency else []
    return _view(tagger, sentence, scores, contributions)


def transitions_of(tagger: Tagger) -> Transitions | None:
    """The transition scores of a tagger's CRF, or the transition log-probabilities of a hidden Markov tagger.

    None if labels are predicted independently of each other.
    """
    if isinstance(tagger.model, HiddenMarkovTagger):
        weights, start, end = (table.cpu() for table in tagger.model.label_transitions())
        return Transitions(weights, start, end, tagger.allowed)
    if not isinstance(tagger.model.head, CrfHead):
        return None
    crf = tagger.model.head.crf
    weights, start, end = (wide(weight.detach()).cpu() for weight in (crf.transitions, crf.start, crf.end))
    return Transitions(weights, start, end, tagger.allowed)


@torch.inference_mode()
def _read(tagger: Tagger, sentence: Sentence) -> _Scores:
    model, recorder = tagger.model, AttentionRecorder()
    with observe_attention(model, recorder):
        source = tagger.source(sentence)
        emissions = model(source)
    lengths = source.lengths
    best = model.best(emissions, lengths, allowed=tagger.allowed)
    log_prob = -float(model.losses(emissions, best, lengths)[0])
    scores, labels = emissions[0].cpu(), best[0].tolist()
    path_score = _path_score(scores, labels, tagger)
    assert not isinstance(model, HiddenMarkovTagger)
    paths = best_paths(scores, PathScores.of(model, allowed=tagger.allowed), count=2)
    others = [
        ScoredLabels(path.labels, _path_score(scores, path.labels, tagger)) for path in paths if path.labels != labels
    ]
    return _Scores(
        scores,
        model.marginals(emissions, lengths)[0].cpu(),
        ScoredLabels(labels, path_score),
        others[0] if others else None,
        path_score - log_prob,
        recorder.maps(),
    )


@torch.inference_mode()
def _read_chain(tagger: Tagger, sentence: Sentence) -> _Scores:
    """What a hidden Markov tagger computes; emissions are log P(word | label), up to a constant for each word."""
    model = tagger.model
    assert isinstance(model, HiddenMarkovTagger)
    source = tagger.source(sentence)
    scores, lengths = model(source), source.lengths
    best, *others = best_chains(model, scores, lengths, allowed=tagger.allowed)
    labels = torch.tensor([best.labels], device=scores.device)
    return _Scores(
        scores[0].view(len(sentence.words), model.kinds, -1).amax(dim=1).cpu(),
        model.marginals(scores, lengths)[0].cpu(),
        best,
        others[0] if others else None,
        best.score + float(model.losses(scores, labels, lengths)[0]),
        [],
    )


def _path_score(emissions: Tensor, labels: Sequence[int], tagger: Tagger) -> float:
    """The score of a label sequence, its emissions plus any transition scores, even if the sequence is not allowed."""
    total = float(sum(row[label] for row, label in zip(emissions, labels, strict=True)))
    transitions = transitions_of(tagger)
    if transitions is None:
        return total
    steps = sum(float(transitions.weights[pair]) for pair in pairwise(labels))
    return total + steps + float(transitions.start[labels[0]] + transitions.end[labels[-1]])


def _saliency(tagger: Tagger, sentence: Sentence, labels: Sequence[int]) -> list[Saliency]:
    """How much each word's vector contributes to each predicted label: gradient × input and integrated gradients.

    Contributions are to the label's log-probability. The vector includes the word's characters and other input columns.
    """
    model = tagger.model

    def predict(rows: int) -> Iterator[Tensor]:
        source = tagger.source(sentence, rows=rows)
        log_marginals = model.log_marginals(model(source), source.lengths)
        yield from (log_marginals[:, word, label] for word, label in enumerate(labels))

    assert not isinstance(model, HiddenMarkovTagger)
    inputs = model.encoder.inputs
    assert isinstance(inputs, nn.Module)
    return [
        Saliency("gradient × input", attributions(inputs, predict, scales=ONE)),
        Saliency("integrated gradients", attributions(inputs, predict, scales=midpoints())),
    ]


def _view(tagger: Tagger, sentence: Sentence, scores: _Scores, saliency: list[Saliency]) -> TaggingView:
    vocabularies = tagger.vocabularies

    def label_path(path: ScoredLabels) -> LabelPath:
        names = [vocabularies.labels[label] for label in path.labels]
        return LabelPath(names, path.score, path.score - scores.log_partition)

    word_ids = vocabularies.encode(*sentence).words
    return TaggingView(
        list(sentence.words),
        {name: list(sentence.columns[name]) for name in tagger.task.inputs},
        [index for index, word in enumerate(word_ids) if word == UNK],
        list(vocabularies.labels),
        vocabularies.label_names(scores.best.labels),
        scores.marginals,
        scores.emissions,
        transitions_of(tagger),
        label_path(scores.best),
        None if scores.runner_up is None else label_path(scores.runner_up),
        scores.maps,
        saliency,
    )
