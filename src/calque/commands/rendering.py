"""Translations as lines of text, TSV or JSON."""

import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from calque.commands.inputs import choice
from calque.errors import DataError

if TYPE_CHECKING:
    from calque.engine import Candidate
    from calque.engine.pipeline import TranslatedLine

FORMATS = ("text", "tsv", "jsonl")


class Rendering(NamedTuple):
    """How translations are written."""

    format: str
    nbest: int
    attention: bool

    @classmethod
    def chosen(cls, format: str | None, *, nbest: int, attention: bool) -> "Rendering":
        """How it was asked for: as text, unless more than one answer a line has to be told apart."""
        chosen = choice(format or ("text" if nbest == 1 else "tsv"), FORMATS, option="--format")
        if attention and chosen != "jsonl":
            raise DataError("--attention goes with --format jsonl")
        return cls(chosen, nbest, attention)


def render(answered: "TranslatedLine", *, rendering: Rendering) -> bytes:
    """What is written for one line, its end included; as text, always `nbest` lines, so that answers can be counted."""
    line, source, translation = answered
    match rendering.format:
        case "text":
            texts = [one_line(each.text) for each in translation.candidates[: rendering.nbest]]
            texts += [""] * (rendering.nbest - len(texts))
            return "".join(f"{text}\n" for text in texts).encode()
        case "tsv":
            rows = ((line.number, f"{each.score:.4f}", one_field(each.text)) for each in translation.candidates)
            return "".join("\t".join(map(str, row)) + "\n" for row in rows).encode()
        case _:
            values = {
                "line": line.number,
                "source": source,
                "source_cut": translation.source_cut or line.cut,
                "candidates": [_values(each, attention=rendering.attention) for each in translation.candidates],
            }
            return json_line(values)


def _values(candidate: "Candidate", *, attention: bool) -> dict[str, Any]:
    from calque.evaluation.alignment import pharaoh

    values: dict[str, Any] = {
        "text": candidate.text,
        "score": _number(candidate.score),
        "log_prob": _number(candidate.log_prob),
        "confidence": candidate.confidence,
        "cut": candidate.cut,
        "missing_phrase": candidate.missing_phrase,
        "oddities": list(candidate.oddities),
    }
    detail = candidate.detail
    if detail is not None:
        values |= {
            "pieces": detail.pieces,
            "log_probs": detail.log_probs,
            "alignment": None if detail.alignment is None else pharaoh(detail.alignment),
        }
        if attention:
            values |= {"source_pieces": detail.source, "attention": detail.attention}
    return values


def _number(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None


_CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]  # Unicode's category Cc
_BREAKS = [0x2028, 0x2029]
_AS_FIELD = dict.fromkeys([*_CONTROLS, *_BREAKS], " ")
_AS_LINE = {code: space for code, space in _AS_FIELD.items() if code != ord("\t")}
_AS_JSON = {code: f"\\u{code:04x}" for code in _AS_FIELD if code >= 0x7F}  # the others are escaped already


def one_line(text: str) -> str:
    """Control characters but the tab, U+2028 and U+2029 become spaces."""
    return text.translate(_AS_LINE)


def one_field(text: str) -> str:
    """The same, and the tab too."""
    return text.translate(_AS_FIELD)


def json_line(values: dict[str, Any]) -> bytes:
    """The values exactly, as one line of JSON with its end; the same characters are escaped."""
    return f"{json.dumps(values, ensure_ascii=False).translate(_AS_JSON)}\n".encode()
