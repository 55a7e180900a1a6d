"""Constraints that are read from files."""

from pathlib import Path

from calque import Request
from calque.data.lines import Line
from calque.engine.constraint_files import RequestBuilder


def test_spaces_around_a_prefix_do_not_count(tmp_path: Path) -> None:
    """After "She " a model with subword pieces would have to continue within a word."""
    (tmp_path / "prefixes").write_text("She \nPeter is\t\n  He  was\n \n", encoding="utf-8")
    requests = RequestBuilder("input", template=Request(""), prefixes=tmp_path / "prefixes", terms=None, inline=False)
    lines = [Line("x", number, cut=False, invalid=None) for number in range(1, 5)]
    assert [requests.build(line).prefix for line in lines] == ["She", "Peter is", "He  was", ""]
