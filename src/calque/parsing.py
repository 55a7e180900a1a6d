"""Parsing TOML and JSON files that may be damaged or hostile: excessively nested values raise a ValueError.

Python's parsers, and functions that recurse through the values, would raise a RecursionError, which callers do not
handle.
"""

import json
import tomllib
from typing import Any

DEEPEST = 100
"""The maximum depth of nested tables and lists. Calque's own configs have seven levels."""

_TOO_DEEP = f"tables or lists are nested more than {DEEPEST} levels deep"


def parse_toml(text: str) -> dict[str, Any]:
    """The values of a TOML document."""
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    refuse_deep(values)
    return values


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON document."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    refuse_deep(value)
    return value


def refuse_deep(value: Any) -> None:
    """Raises a ValueError for a value with more than DEEPEST levels of tables and lists, without recursion."""
    level, depth = [value] if isinstance(value, dict | list) else [], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise ValueError(_TOO_DEEP)
        contents = (inner.values() if isinstance(inner, dict) else inner for inner in level)
        level = [inner for content in contents for inner in content if isinstance(inner, dict | list)]
