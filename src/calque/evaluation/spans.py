"""How many spans of BIO or IOBES labels were predicted: the scores of conlleval and seqeval."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from calque.errors import DataError
from calque.text.span_labels import spans


class SpanScore(NamedTuple):
    """Shares between 0 and 1; 0 where there is nothing to have a share of."""

    precision: float
    """Of the predicted spans, how many are right: the same words and the same type."""
    recall: float
    """Of the gold spans, how many were predicted."""
    f1: float
    """Their harmonic mean."""
    support: int
    """How many gold spans there are."""


class SpanScores(NamedTuple):
    """What was predicted of all spans, and of those of each type."""

    micro: SpanScore
    types: dict[str, SpanScore]
    """By the types of gold and predicted spans, in alphabetical order."""


def score_spans(predicted: Sequence[Sequence[str]], *, gold: Sequence[Sequence[str]]) -> SpanScores:
    """Precision, recall and F1 of the spans of predicted label sequences, one per sentence, against gold ones.

    The figures are those of seqeval 1.2.2 in its default mode, which are conlleval's.
    """
    check_alignment(predicted, gold=gold)
    in_predicted, in_gold, in_both = Counter[str](), Counter[str](), Counter[str]()
    for labels, gold_labels in zip(predicted, gold, strict=True):
        predicted_spans, gold_spans = set(spans(labels)), set(spans(gold_labels))
        in_predicted.update(span.type for span in predicted_spans)
        in_gold.update(span.type for span in gold_spans)
        in_both.update(span.type for span in predicted_spans & gold_spans)
    types = {
        kind: _score(in_both[kind], predicted=in_predicted[kind], gold=in_gold[kind])
        for kind in sorted(in_predicted | in_gold)
    }
    return SpanScores(_score(in_both.total(), predicted=in_predicted.total(), gold=in_gold.total()), types)


def check_alignment(predicted: Sequence[Sequence[str]], *, gold: Sequence[Sequence[str]]) -> None:
    """Raises a DataError where sentences or words differ in number."""
    if len(predicted) != len(gold):
        raise DataError(f"{len(predicted):,} predicted sentences but {len(gold):,} gold ones: they must line up")
    for number, (labels, gold_labels) in enumerate(zip(predicted, gold, strict=True), start=1):
        if len(labels) != len(gold_labels):
            raise DataError(
                f"sentence {number:,}: {len(labels):,} predicted labels but {len(gold_labels):,} gold ones: "
                "every word needs one of each"
            )


def _score(both: int, *, predicted: int, gold: int) -> SpanScore:
    precision, recall = both / max(predicted, 1), both / max(gold, 1)
    return SpanScore(precision, recall, 2 * both / max(predicted + gold, 1), gold)
