"""Labels that describe spans of words: IOB1, IOB2 (BIO) and IOBES.

B begins a span, I continues it, E ends it, S is a span of one word, and O is outside all spans. Sequences need
not be well formed; spans are read as conlleval reads them.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

UNTYPED = "_"
"""The type of spans whose labels name no type, as in B I I O."""

_PREFIXES = frozenset("BIES")
_OUTSIDE = ("O", UNTYPED)


class Span(NamedTuple):
    """Consecutive words of one type."""

    type: str
    start: int
    """The first word, from 0."""
    stop: int
    """The word after the last one."""


def has_spans(labels: Iterable[str]) -> bool:
    """Whether labels belong to a span scheme: O, and B, I, E or S, either all with a type (B-NP) or all without."""
    names = set(labels) - {"O"}
    is_typed = all(name[:1] in _PREFIXES and name[1:2] == "-" for name in names)
    return bool(names) and (is_typed or names <= _PREFIXES)


def spans(labels: Sequence[str]) -> list[Span]:
    """The spans that a sentence's labels describe, from left to right. Labels without a prefix such as B- count as O.

    A span ends after E and S, before B, S and O, and where the type changes. A span begins at B and S, at an I or E
    that does not continue a span, and where the type changes.
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


def to_iobes(labels: Sequence[str]) -> list[str]:
    """Labels of the same spans in IOBES, which also marks ends: B-NP I-NP I-NP O B-VP becomes B-NP I-NP E-NP O S-VP."""
    return _relabelled(labels, single="S", last="E")


def to_bio(labels: Sequence[str]) -> list[str]:
    """Labels of the same spans in BIO: B-NP E-NP S-VP becomes B-NP I-NP B-VP."""
    return _relabelled(labels, single="B", last="I")


def bio_name(label: str) -> str:
    """The BIO label that an IOBES label becomes in a well-formed sequence."""
    prefix = {"S": "B", "E": "I"}.get(label[:1]) if _parts(label) != _OUTSIDE else None
    return label if prefix is None else prefix + label[1:]


def _relabelled(labels: Sequence[str], *, single: str, last: str) -> list[str]:
    result = list(labels)
    for span in spans(labels):
        inner = span.stop - span.start - 2
        prefixes = single if inner < 0 else "B" + "I" * inner + last
        for place, prefix in zip(range(span.start, span.stop), prefixes, strict=True):
            result[place] = prefix + labels[place][1:]
    return result


def _parts(label: str) -> tuple[str, str]:
    """The prefix and the type of a label: ("B", "X") for B-X; labels without a prefix B, I, E or S count as O."""
    prefix, hyphen, kind = label[:1], label[1:2], label[2:]
    is_of_span = prefix in _PREFIXES and hyphen in ("", "-")
    return (prefix, kind or UNTYPED) if is_of_span else _OUTSIDE
