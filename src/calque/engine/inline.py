r"""Required phrases inside the text: `the <term target="Bahnhof">station</term> is closed`.

A mark begins with `<term target="PHRASE">`, PHRASE being what must be said, and ends with `</term>`; the model reads
what stands between them. In PHRASE `\"` is a quotation mark and `\\` a backslash. Where the text itself has `<term`
before a space or `>`, or `</term>`, a backslash before it says so; backslashes there count as in a shell: `\\` is one.
"""

import re
from typing import NamedTuple

from calque.errors import TextError

_MARK = re.compile(r"(?<!\\)(\\*)(<term(?=[\s>/])|</term>)")  # a row of backslashes is looked at once
_OPENING = re.compile(r'<term\s+target\s*=\s*"((?:\\.|[^"\\])*)"\s*>', re.DOTALL)
_ESCAPED = re.compile(r'\\(["\\])')
_SHOWN = 40  # characters of the text in a message


class Term(NamedTuple):
    """A phrase that must appear, and where in the text the words that it is for begin."""

    phrase: str
    place: int


class Inline(NamedTuple):
    """A text without its marks, and what they ask for."""

    text: str
    terms: tuple[Term, ...]


def read_inline(line: str) -> Inline:
    """The text of a line and its marks' terms.   Law: `read_inline(escape(text)) == (text, ())`."""
    text, terms, place = "", [], 0
    opened: tuple[str, int] | None = None  # the phrase of the mark that is open, and where the mark stands
    while found := _MARK.search(line, place):
        slashes, mark = found.groups()
        text += line[place : found.start()] + "\\" * (len(slashes) // 2)
        place = found.end()
        if len(slashes) % 2:
            text += mark
            continue
        if mark == "</term>":
            if opened is None:
                raise _wrong(line, found.start(2), '</term> without a <term target="..."> before it')
            opened = None
            continue
        if opened is not None:
            raise _wrong(line, found.start(2), "a mark within a mark")
        opening = _OPENING.match(line, found.start(2))
        if opening is None:
            raise _wrong(line, found.start(2), 'expected <term target="...">')
        phrase = _ESCAPED.sub(r"\1", opening[1]).strip()
        if not phrase:
            raise _wrong(line, found.start(2), "its target is empty")
        opened, place = (phrase, found.start(2)), opening.end()
        terms.append(Term(phrase, len(text)))
    if opened is not None:
        raise _wrong(line, opened[1], "no </term> follows")
    return Inline(text + line[place:], tuple(terms))


def escape(text: str) -> str:
    """The text with backslashes where it would be read as a mark."""
    return _MARK.sub(lambda found: 2 * found[1] + "\\" + found[2], text)


def _wrong(line: str, place: int, problem: str) -> TextError:
    shown = line[place : place + _SHOWN] + ("..." if len(line) > place + _SHOWN else "")
    return TextError(f"{problem}: {shown!r} (character {place + 1}); where it is no mark, write \\ before it")
