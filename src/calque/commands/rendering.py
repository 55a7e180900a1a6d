"""Translations as lines of text, TSV or JSON."""

import math
from typing import Any, NamedTuple

from calque.commands.answering import Answered
from calque.commands.choices import choice
from calque.commands.lines import json_line, one_field, one_line
from calque.errors import DataError
from calque.evaluation.alignment import pharaoh
from calque.translator import Candidate

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


def render(answered: Answered, *, rendering: Rendering) -> bytes:
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


def _values(candidate: Candidate, *, attention: bool) -> dict[str, Any]:
    values: dict[str, Any] = {
        "text": candidate.text,
        "score": _number(candidate.score),
        "log_prob": _number(candidate.log_prob),
        "confidence": candidate.confidence,
        "cut": candidate.cut,
        "lacking": candidate.lacking,
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
