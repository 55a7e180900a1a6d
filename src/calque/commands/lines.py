"""Text as one line, whoever reads it: `wc`, Python's `splitlines`, an editor or a terminal."""

import json
from typing import Any

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
