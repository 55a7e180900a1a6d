"""Inline marks: the phrases that they require, the text without them, and malformed marks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calque import Request, TextError
from calque.engine.inline import Inline, Term, escape, read_inline

PIECES = ["a ", "ß", "<term", "</term>", " ", ">", "\\", '"', "<", "/", "term", 'target="x"', "\n", "="]
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join)
phrases = st.text(min_size=1).filter(lambda phrase: bool(phrase.strip()))


def mark(phrase: str, words: str) -> str:
    """As a user would write it."""
    quoted = phrase.replace("\\", "\\\\").replace('"', '\\"')
    return f'<term target="{quoted}">{words}</term>'


@pytest.mark.parametrize(
    ("line", "text", "terms"),
    [
        ("", "", []),
        ("no marks < here", "no marks < here", []),
        ('the <term target="Bahnhof">station</term>.', "the station.", [("Bahnhof", 4)]),
        ('<term target="x y">a</term><term target="x y">b</term>', "ab", [("x y", 0), ("x y", 1)]),
        ('<term  target = "sagt \\"ja\\" \\\\ \\n">a</term >', None, None),
        ('<term  target = "sagt \\"ja\\" \\\\ \\n">a</term>', "a", [('sagt "ja" \\ \\n', 0)]),
        ('<term target="x"></term>a', "a", [("x", 0)]),
        ("a <terminal> <b>c</b> &lt; \\n \\", "a <terminal> <b>c</b> &lt; \\n \\", []),
        ("a \\<term target=1> \\</term>", "a <term target=1> </term>", []),
        ('\\\\<term target="x">a\\\\</term>', "\\a\\", [("x", 1)]),
        ("\\\\\\<term >", "\\<term >", []),
    ],
)
def test_lines(line: str, text: str | None, terms: list[tuple[str, int]] | None) -> None:
    if text is None or terms is None:
        with pytest.raises(TextError):
            read_inline(line)
        return
    assert read_inline(line) == Inline(text, tuple(Term(*term) for term in terms))


@given(texts)
def test_escaped_text_is_read_unchanged(text: str) -> None:
    assert read_inline(escape(text)) == Inline(text, ())


@given(st.lists(st.tuples(texts, phrases, texts), max_size=4), texts)
def test_every_text_can_be_marked_and_every_phrase_required(parts: list[tuple[str, str, str]], rest: str) -> None:
    """A hyphen separates texts that end in a backslash from the next mark."""
    line = "".join(f"{escape(before)}-{mark(phrase, escape(words) + '-')}" for before, phrase, words in parts)
    text, terms = read_inline(line + escape(rest))
    assert text == "".join(f"{before}-{words}-" for before, _, words in parts) + rest
    assert [term.phrase for term in terms] == [phrase.strip() for _, phrase, _ in parts]
    for term, (_, _, words) in zip(terms, parts, strict=True):
        assert text[term.place :].startswith(words)


@pytest.mark.parametrize(
    ("line", "problem", "place"),
    [
        ("a </term>", "before this </term>", 3),
        ('<term target="x">a', "no </term>", 1),
        ('<term target="x">a <term target="y">b</term></term>', "inside another mark", 20),
        ("<term>a</term>", "expected", 1),
        ("b <term target=x>a</term>", "expected", 3),
        ('<term target="x>a</term>', "expected", 1),
        ('<term target="x\\">a</term>', "expected", 1),
        ('<term target="x" kind="y">a</term>', "expected", 1),
        ('<term target=" ">a</term>', "empty", 1),
        ("<term/>", "expected", 1),
    ],
)
def test_a_malformed_mark_is_rejected_with_its_position(line: str, problem: str, place: int) -> None:
    with pytest.raises(TextError, match=rf"{problem}.*\(character {place}\)"):
        read_inline(line)


def test_a_request_is_built_from_a_line() -> None:
    request = Request.inline('the <term target="Bahnhof">station</term> is closed', prefix="Der")
    assert request == Request("the station is closed", "Der", ("Bahnhof",), (4,))
