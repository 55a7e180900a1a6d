"""TOML and JSON that are nested without end."""

import json

import pytest

from calque.parsing import DEEPEST, parse_json, parse_toml


@pytest.mark.parametrize("depth", [DEEPEST + 1, 900, 2000, 100_000])
@pytest.mark.parametrize(("start", "end"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_what_is_nested_too_deeply_is_a_value_error(depth: int, start: str, end: str) -> None:
    text = f"{start * depth}1{end * depth}"
    with pytest.raises(ValueError, match="nested more than 100 levels deep"):
        parse_json(text)
    with pytest.raises(ValueError, match="nested more than 100 levels deep"):
        parse_toml(f"a = {text.replace(':', '=')}")


def test_tables_that_are_nested_by_their_names_count_too() -> None:
    """A parser without recursion reads them, and whatever walks through the values would fail."""
    with pytest.raises(ValueError, match="nested more than 100 levels deep"):
        parse_toml(f"[{'.'.join('a' * 5000)}]\n")


def test_what_is_not_too_deep_is_parsed() -> None:
    text = "[" * DEEPEST + "]" * DEEPEST
    assert parse_json(text) == json.loads(text)
    assert parse_json(b'"a"') == "a"
    assert parse_toml("a.b = 1\n[[c]]\n") == {"a": {"b": 1}, "c": [{}]}
