"""Cleaning of lines: carriage returns, byte order marks and reserved characters."""

import re

BYTE_ORDER_MARK = "\ufeff"


def strip_return(line: str) -> tuple[str, bool]:
    """The line without a trailing carriage return, and whether there was one (Windows line endings)."""
    return line.removesuffix("\r"), line.endswith("\r")


def strip_bom(line: str) -> tuple[str, bool]:
    """The line without a leading byte order mark, and whether there was one; for the first line of a file only."""
    return line.removeprefix(BYTE_ORDER_MARK), line.startswith(BYTE_ORDER_MARK)


ESCAPE = "␛"


class Escape:
    """Escapes reserved characters as ␛ and a digit.   Law: undo(apply(s)) == s; apply(s) has no reserved characters.

    >>> Escape("▁").apply("a▁b ␛")
    'a␛1b ␛0'
    """

    def __init__(self, reserved: str) -> None:
        characters = ESCAPE + reserved
        assert len(set(characters)) == len(characters) <= 10
        self._spelling = {character: f"{ESCAPE}{digit}" for digit, character in enumerate(characters)}
        self._meaning = {spelling: character for character, spelling in self._spelling.items()}
        self._reserved = re.compile("|".join(map(re.escape, self._spelling)))
        self._escaped = re.compile("|".join(map(re.escape, self._meaning)))

    def is_needed(self, text: str) -> bool:
        """Whether `apply` would change the text."""
        return any(character in text for character in self._spelling)

    def apply(self, text: str) -> str:
        return self._reserved.sub(lambda match: self._spelling[match[0]], text)

    def undo(self, text: str) -> str:
        """The original text; an ␛ that `apply` did not write is left unchanged."""
        return self._escaped.sub(lambda match: self._meaning[match[0]], text)
