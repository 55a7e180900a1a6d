"""Spans in sequences of BIO labels, and how many of them were predicted: the scores of conlleval and seqeval.

Known are IOB1, IOB2 (BIO) and IOBES: B begins a span, I goes on, E ends one, S is one, and O is outside. Predicted
sequences need not be well formed; a span is read out of them wherever conlleval reads one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from calque.errors import DataError

UNTYPED = "_"
"""The type of spans whose labels have none, as in B I I O."""

_PREFIXES = frozenset("BIES")
_OUTSIDE = ("O", UNTYPED)


class Span(NamedTuple):
    """Consecutive words of one type."""

    type: str
    start: int
    """The first word, from 0."""
    stop: int
    """The word behind the last one."""


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


def has_spans(labels: Iterable[str]) -> bool:
    """Whether label names are of a scheme of spans: all O, or B, I, E or S with a type, or all of them without one."""
    names = set(labels) - {"O"}
    is_typed = all(name[:1] in _PREFIXES and name[1:2] == "-" for name in names)
    return bool(names) and (is_typed or names <= _PREFIXES)


def spans(labels: Sequence[str]) -> list[Span]:
    """The spans of a sentence's labels, in their order; labels without a prefix of the scheme are outside.

    A span ends behind E and S, before B, S and O, and where the type changes. One begins with B and S, with I and E
    that continue none, and where the type changes.
    """
    result: list[Span] = []
    start, (prefix, kind) = 0, _OUTSIDE
    for place, label in enumerate((*labels, "O")):
        before, type_before = prefix, kind
        prefix, kind = _parts(label)
        continues = before in ("B", "I") and prefix in ("I", "E") and kind == type_before
        if before != "O" and not continues:
            result.append(Span(type_before, start, place))
        if not continues:
            start = place
    return result


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


def _parts(label: str) -> tuple[str, str]:
    """The prefix and the type of a label: B-X is ("B", "X"); what is no label of a span is outside."""
    prefix, hyphen, kind = label[:1], label[1:2], label[2:]
    is_of_span = prefix in _PREFIXES and hyphen in ("", "-")
    return (prefix, kind or UNTYPED) if is_of_span else _OUTSIDE


def _score(both: int, *, predicted: int, gold: int) -> SpanScore:
    precision, recall = both / max(predicted, 1), both / max(gold, 1)
    return SpanScore(precision, recall, 2 * both / max(predicted + gold, 1), gold)
