"""Formats translations as lines of text, TSV or JSON, for the output of `calque translate`."""

import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from calque.commands.inputs import choice
from calque.errors import CalqueError, DataError

if TYPE_CHECKING:
    from calque.data.lines import Line
    from calque.engine import Answer, Candidate

FORMATS = ("text", "tsv", "jsonl")


class Rendering(NamedTuple):
    """How to write translations: the format, the number per input line, and whether to include attention."""

    format: str
    nbest: int
    attention: bool

    @classmethod
    def from_options(cls, format: str | None, *, nbest: int, attention: bool) -> "Rendering":
        """The requested format; by default text, or TSV if there are several translations per line."""
        format_name = choice(format or ("text" if nbest == 1 else "tsv"), FORMATS, option="--format")
        if attention and format_name != "jsonl":
            raise DataError("--attention needs --format jsonl, as the other formats have no attention weights")
        return cls(format_name, nbest, attention)


class TranslatedLine(NamedTuple):
    """An input line, its source text, and its translation or the error that prevented it."""

    line: "Line"
    source: str  # without inline marks
    answer: "Answer"


def render(translated: TranslatedLine, *, rendering: Rendering) -> bytes:
    """The output for one input line; text always has `nbest` lines, so that output lines up with input."""
    line, source, translation = translated
    if isinstance(translation, CalqueError):
        return _render_error(translated, rendering=rendering)
    match rendering.format:
        case "text":
            texts = [one_line(candidate.text) for candidate in translation.candidates[: rendering.nbest]]
            texts += [""] * (rendering.nbest - len(texts))
            return "".join(f"{text}\n" for text in texts).encode()
        case "tsv":
            rows = (
                f"{line.number}\t{candidate.score:.4f}\t{one_field(candidate.text)}\n"
                for candidate in translation.candidates
            )
            return "".join(rows).encode()
        case _:
            values = {
                "line": line.number,
                "source": source,
                "source_cut": translation.source_cut or line.cut,
                "candidates": [
                    _values(candidate, attention=rendering.attention) for candidate in translation.candidates
                ],
            }
            return json_line(values)


def _render_error(translated: TranslatedLine, *, rendering: Rendering) -> bytes:
    """The output for a line that could not be translated: an empty translation or, in JSON, the error."""
    number = translated.line.number
    match rendering.format:
        case "text":
            return b"\n" * rendering.nbest
        case "tsv":
            return f"{number}\t\t\n".encode()
        case _:
            return json_line({"line": number, "source": translated.source, "error": str(translated.answer)})


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
        **({"shortlisted": True} if candidate.shortlisted else {}),
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
    """The value, or None if it is not finite, because JSON has no infinities."""
    return value if math.isfinite(value) else None


def finite(values: Any) -> Any:
    """The values with None in place of infinities and NaN, which JSON does not have."""
    match values:
        case float():
            return _number(values)
        case dict():
            return {key: finite(value) for key, value in values.items()}
        case list() | tuple():
            return [finite(value) for value in values]
        case _:
            return values


_CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]  # Unicode's category Cc
_BREAKS = [0x2028, 0x2029]
_AS_FIELD = dict.fromkeys([*_CONTROLS, *_BREAKS], " ")
_AS_LINE = {code: space for code, space in _AS_FIELD.items() if code != ord("\t")}
_AS_JSON = {code: f"\\u{code:04x}" for code in _AS_FIELD if code >= 0x7F}  # the others are escaped already


def one_line(text: str) -> str:
    """Replaces control characters (except tabs), U+2028 and U+2029 by spaces."""
    return text.translate(_AS_LINE)


def one_field(text: str) -> str:
    """Replaces control characters (including tabs), U+2028 and U+2029 by spaces."""
    return text.translate(_AS_FIELD)


def json_line(values: dict[str, Any]) -> bytes:
    """The values as one line of JSON with its end; control characters, U+2028 and U+2029 are escaped."""
    return f"{json.dumps(values, ensure_ascii=False).translate(_AS_JSON)}\n".encode()
