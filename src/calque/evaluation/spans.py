"""Precision, recall and F1 of the spans that BIO or IOBES labels describe, as in conlleval and seqeval."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from calque.errors import DataError
from calque.text.span_labels import spans


class SpanScore(NamedTuple):
    """Precision, recall and F1 between 0 and 1; 0 if the denominator is 0."""

    precision: float
    """The share of predicted spans that are correct: the same words and the same type as a gold span."""
    recall: float
    """The share of gold spans that were predicted."""
    f1: float
    """The harmonic mean of precision and recall."""
    support: int
    """The number of gold spans."""


class SpanScores(NamedTuple):
    """The scores of all spans, and of the spans of each type."""

    micro: SpanScore
    types: dict[str, SpanScore]
    """The scores by type of gold and predicted spans, in alphabetical order."""


def score_spans(predicted: Sequence[Sequence[str]], *, gold: Sequence[Sequence[str]]) -> SpanScores:
    """Precision, recall and F1 of the predicted spans, given the predicted and gold labels of each sentence.

    The scores equal those of seqeval 1.2.2 in its default mode, and of conlleval.
    """
    check_alignment(predicted, gold=gold)
    in_predicted, in_gold, correct = Counter[str](), Counter[str](), Counter[str]()
    for labels, gold_labels in zip(predicted, gold, strict=True):
        predicted_spans, gold_spans = set(spans(labels)), set(spans(gold_labels))
        in_predicted.update(span.type for span in predicted_spans)
        in_gold.update(span.type for span in gold_spans)
        correct.update(span.type for span in predicted_spans & gold_spans)
    types = {
        kind: _score(correct[kind], predicted=in_predicted[kind], gold=in_gold[kind])
        for kind in sorted(in_predicted | in_gold)
    }
    return SpanScores(_score(correct.total(), predicted=in_predicted.total(), gold=in_gold.total()), types)


def check_alignment(predicted: Sequence[Sequence[str]], *, gold: Sequence[Sequence[str]]) -> None:
    """Raises a DataError if the numbers of sentences or words differ."""
    if len(predicted) != len(gold):
        raise DataError(
            f"{len(predicted):,} predicted sentences but {len(gold):,} gold ones: their numbers must be equal"
        )
    for number, (labels, gold_labels) in enumerate(zip(predicted, gold, strict=True), start=1):
        if len(labels) != len(gold_labels):
            raise DataError(
                f"sentence {number:,}: {len(labels):,} predicted labels but {len(gold_labels):,} gold ones: "
                "every word needs a predicted and a gold label"
            )


def _score(correct: int, *, predicted: int, gold: int) -> SpanScore:
    precision, recall = correct / max(predicted, 1), correct / max(gold, 1)
    return SpanScore(precision, recall, 2 * correct / max(predicted + gold, 1), gold)
