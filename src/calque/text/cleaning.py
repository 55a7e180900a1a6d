"""Taking off what editors leave around a line of text."""

import re

BYTE_ORDER_MARK = "\ufeff"


def strip_return(line: str) -> tuple[str, bool]:
    """The line without one carriage return at its end, and whether there was one (a file of Windows lines)."""
    return line.removesuffix("\r"), line.endswith("\r")


def strip_bom(line: str) -> tuple[str, bool]:
    """The line without a byte order mark at its start, and whether there was one; for a file's first line only."""
    return line.removeprefix(BYTE_ORDER_MARK), line.startswith(BYTE_ORDER_MARK)


ESCAPE = "␛"


class Escape:
    """Respells reserved characters as ␛ and a digit.   Law: undo(apply(s)) == s, and apply(s) has none of them.

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

    def apply(self, text: str) -> str:
        return self._reserved.sub(lambda found: self._spelling[found[0]], text)

    def undo(self, text: str) -> str:
        """The text that was respelled; an ␛ that no `apply` wrote stays as it is."""
        return self._escaped.sub(lambda found: self._meaning[found[0]], text)
