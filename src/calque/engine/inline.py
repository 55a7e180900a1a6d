r"""Required phrases inside the text: `the <term target="Bahnhof">station</term> is closed`.

A mark begins with `<term target="PHRASE">`, where PHRASE is the required phrase, and ends with `</term>`; the model
reads the text between them. In PHRASE, `\"` is a quotation mark and `\\` a backslash. A backslash before `<term` or
`</term>` makes it literal text. Two backslashes there stand for one literal backslash and leave the mark in force. Only
a `<term` that is followed by white space, `>` or `/` counts as a mark.
"""

import re
from typing import NamedTuple

from calque.errors import TextError

_MARK = re.compile(r"(?<!\\)(\\*)(<term(?=[\s>/])|</term>)")  # a run of backslashes is matched once
_OPENING = re.compile(r'<term\s+target\s*=\s*"((?:\\.|[^"\\])*)"\s*>', re.DOTALL)
_ESCAPED = re.compile(r'\\(["\\])')
_SHOWN = 40  # characters of the text quoted in a message


class Term(NamedTuple):
    """A required phrase, and where in the text the words that it translates begin."""

    phrase: str
    place: int


class Inline(NamedTuple):
    """A text without its marks, and the terms that the marks require."""

    text: str
    terms: tuple[Term, ...]


def read_inline(line: str) -> Inline:
    """The text of a line without its marks, and their terms. Law: `read_inline(escape(text)) == (text, ())`."""
    text, terms, place = "", [], 0
    opened: tuple[str, int] | None = None  # the phrase and the position of the mark that is open
    while match := _MARK.search(line, place):
        slashes, mark = match.groups()
        text += line[place : match.start()] + "\\" * (len(slashes) // 2)
        place = match.end()
        if len(slashes) % 2:
            text += mark
            continue
        if mark == "</term>":
            if opened is None:
                raise _mark_error(line, match.start(2), 'there is no <term target="..."> before this </term>')
            opened = None
            continue
        if opened is not None:
            raise _mark_error(line, match.start(2), "this mark is inside another mark")
        opening = _OPENING.match(line, match.start(2))
        if opening is None:
            raise _mark_error(line, match.start(2), 'this mark is malformed; expected <term target="...">')
        phrase = _ESCAPED.sub(r"\1", opening[1]).strip()
        if not phrase:
            raise _mark_error(line, match.start(2), 'the target of this <term target="..."> is empty')
        opened, place = (phrase, match.start(2)), opening.end()
        terms.append(Term(phrase, len(text)))
    if opened is not None:
        raise _mark_error(line, opened[1], "this <term> is not closed: no </term> follows it")
    return Inline(text + line[place:], tuple(terms))


def has_mark(text: str) -> bool:
    """Whether a text contains `<term target="...">`, with which a mark begins."""
    return _OPENING.search(text) is not None


def escape(text: str) -> str:
    """The text with a backslash inserted before everything that would be read as a mark."""
    return _MARK.sub(lambda match: 2 * match[1] + "\\" + match[2], text)


def _mark_error(line: str, place: int, problem: str) -> TextError:
    shown = line[place : place + _SHOWN] + ("..." if len(line) > place + _SHOWN else "")
    return TextError(f"{problem}: {shown!r} (character {place + 1}); if it is not a mark, write \\ before it")
