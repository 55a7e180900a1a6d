"""Constraints that are read from files."""

import re
from pathlib import Path

import pytest

from calque import Request
from calque.data.lines import LINE_LIMIT, Line
from calque.engine.constraint_files import RequestBuilder
from calque.errors import DataError


def test_spaces_around_a_prefix_do_not_count(tmp_path: Path) -> None:
    """After "She " a model with subword pieces would have to continue within a word."""
    (tmp_path / "prefixes").write_text("She \nPeter is\t\n  He  was\n \n", encoding="utf-8")
    requests = RequestBuilder("input", template=Request(""), prefixes=tmp_path / "prefixes", terms=None, inline=False)
    lines = [Line("x", number, cut=False, invalid=None) for number in range(1, 5)]
    assert [requests.build(line).prefix for line in lines] == ["She", "Peter is", "He  was", ""]


def builder(folder: Path, *, terms: str = "", prefixes: str | None = None, inline: bool = False) -> RequestBuilder:
    files = {"terms": terms or None, "prefixes": prefixes}
    for name, text in files.items():
        if text is not None:
            (folder / name).write_text(text, encoding="utf-8")
    paths = {name: None if text is None else folder / name for name, text in files.items()}
    return RequestBuilder(
        "input", template=Request(""), prefixes=paths["prefixes"], terms=paths["terms"], inline=inline
    )


def line(text: str, number: int = 1) -> Line:
    return Line(text, number, cut=False, invalid=None)


def test_terms_are_required_where_they_occur_as_whole_words(tmp_path: Path) -> None:
    requests = builder(tmp_path, terms="Bahnhof\tdepot\n\nHof\tcourt\n 东京 \tTokyo\n")
    found = requests.build(line("Der Bahnhof im Hof."))
    assert (found.required, found.places) == (("depot", "court"), (4, 15))
    assert requests.build(line("Die Bahnhofsuhr")).required == ()
    assert requests.build(line("我住在东京都")).required == ("Tokyo",)  # no spaces between words


def test_a_phrase_that_is_marked_is_not_required_twice(tmp_path: Path) -> None:
    requests = builder(tmp_path, terms="Bahnhof\tdepot\nzu\tshut\n", inline=True)
    request = requests.build(line('Der <term target="depot">Bahnhof</term> ist zu.'))
    assert (request.text, request.required) == ("Der Bahnhof ist zu.", ("depot", "shut"))
    assert request.places == (4, 16)


def test_malformed_terms_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        builder(tmp_path, terms="a\tb\nc\nd\t\n\n\te\tf\n")
    lines = str(error.value).splitlines()
    assert [re.sub(r".*terms: (line \d+):.*", r"\1", text) for text in lines] == ["line 2", "line 3", "line 5"]
    assert all("expected two tab-separated fields, found" in text for text in lines)


def test_prefixes_line_up_with_the_input(tmp_path: Path) -> None:
    requests = builder(tmp_path, prefixes="The\nA\n")
    assert requests.build(line("x", 2)).prefix == "A"
    with pytest.raises(DataError, match=r"prefixes ends after line 2, but the input has more lines"):
        requests.build(line("x", 3))
    requests.check_line_count(2)
    with pytest.raises(DataError, match=r"prefixes has 2 lines, but input has 1; both need the same number of lines"):
        requests.check_line_count(1)
    builder(tmp_path).check_line_count(0)  # no prefixes


def test_a_line_beyond_the_limit_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"terms: line 2: longer than {LINE_LIMIT:,} bytes"):
        builder(tmp_path, terms=f"a\tb\n{'x' * (LINE_LIMIT + 1)}\tc\n")
