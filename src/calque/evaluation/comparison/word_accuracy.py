"""Precision, recall and F1 of words, by a property of the word: frequency, case or label.

A word of a hypothesis is correct if the reference has it too, counted at most as often as it occurs there.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from calque.evaluation.comparison.buckets import Cuts
from calque.evaluation.comparison.words import Words

FREQUENCIES = (1, 2, 3, 4, 5, 10, 100, 1000)
CASES = ("lower case", "upper case", "title case", "other")


class WordScore(NamedTuple):
    """How well the words of a bucket are translated. Shares are between 0 and 1, and 0 if the denominator is 0."""

    precision: float
    recall: float
    f1: float
    correct: int
    hypothesis: int
    """Words of the hypotheses."""
    reference: int
    """Words of the references."""

    @classmethod
    def of(cls, correct: int, *, hypothesis: int, reference: int) -> "WordScore":
        """Precision, recall and F1, computed from the counts of words."""
        precision, recall = correct / max(hypothesis, 1), correct / max(reference, 1)
        f1 = 2 * correct / max(hypothesis + reference, 1)
        return cls(precision, recall, f1, correct, hypothesis, reference)


class LabelledWord(NamedTuple):
    """A word and its label, such as its part of speech in the sentence."""

    word: str
    label: str


def score_words(
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    *,
    bucket: Callable[[str], int],
    buckets: int,
) -> list[WordScore]:
    """The word scores of each bucket; `bucket(word)` is the number of a word's bucket."""
    correct, in_hypotheses, in_references = [0] * buckets, [0] * buckets, [0] * buckets
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        produced, expected = Counter(hypothesis), Counter(reference)
        for word, count in produced.items():
            place = bucket(word)
            in_hypotheses[place] += count
            correct[place] += min(count, expected[word])
        for word, count in expected.items():
            in_references[bucket(word)] += count
    counts = zip(correct, in_hypotheses, in_references, strict=True)
    return [WordScore.of(right, hypothesis=made, reference=wanted) for right, made, wanted in counts]


def by_frequency(
    systems: Sequence[Sequence[Words]], references: Sequence[Words], *, frequencies: Mapping[str, int], origin: str
) -> dict[str, Any]:
    """Word scores by frequency of the word; `origin` names the text that frequencies were counted in."""
    cuts = Cuts(FREQUENCIES)

    def bucket(word: str) -> int:
        return cuts.place(frequencies.get(word, 0))

    labels = ["0", *cuts.labels()[1:]]
    scores = [score_words(system, references, bucket=bucket, buckets=len(labels)) for system in systems]
    return _section("word-frequency", f"word accuracy by frequency in {origin}", labels, scores)


def by_case(systems: Sequence[Sequence[Words]], references: Sequence[Words]) -> dict[str, Any]:
    """Word scores by letter case."""
    scores = [score_words(system, references, bucket=_case, buckets=len(CASES)) for system in systems]
    return _section("word-case", "word accuracy by case", list(CASES), scores)


def _case(word: str) -> int:
    return 0 if word.islower() else 1 if word.isupper() and len(word) > 1 else 2 if word.istitle() else 3


def by_label(
    systems: Sequence[Sequence[Sequence[LabelledWord]]], references: Sequence[Sequence[LabelledWord]]
) -> dict[str, Any]:
    """Word scores by label, such as a part of speech.

    A correct word counts under its label in the reference, whatever its label in the hypothesis.
    """
    labels = sorted({word.label for sentence in references for word in sentence})
    labels += sorted({word.label for system in systems for sentence in system for word in sentence} - set(labels))
    places = {label: place for place, label in enumerate(labels)}
    scores = [_score_labelled(system, references, places=places) for system in systems]
    return _section("word-label", "word accuracy by label", labels, scores)


def _score_labelled(
    hypotheses: Sequence[Sequence[LabelledWord]],
    references: Sequence[Sequence[LabelledWord]],
    *,
    places: Mapping[str, int],
) -> list[WordScore]:
    correct, in_hypotheses, in_references = ([0] * len(places) for _ in range(3))
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        expected: dict[str, list[str]] = {}
        for word, label in reference:
            expected.setdefault(word, []).append(label)
            in_references[places[label]] += 1
        for word, label in hypothesis:
            if remaining := expected.get(word):
                label = remaining.pop(0)  # in the order of the reference
                correct[places[label]] += 1
            in_hypotheses[places[label]] += 1
    counts = zip(correct, in_hypotheses, in_references, strict=True)
    return [WordScore.of(right, hypothesis=made, reference=wanted) for right, made, wanted in counts]


def _section(id: str, title: str, labels: Sequence[str], scores: Sequence[Sequence[WordScore]]) -> dict[str, Any]:
    """The word scores of each system by bucket, for the JSON of a comparison; buckets without words are left out."""
    kept = [
        place for place in range(len(labels)) if any(row[place].hypothesis or row[place].reference for row in scores)
    ]
    return {
        "id": id,
        "title": title,
        "buckets": [labels[place] for place in kept],
        "systems": [[row[place]._asdict() for place in kept] for row in scores],
    }
