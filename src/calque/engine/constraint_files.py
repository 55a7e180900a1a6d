"""Files that say what translations must and must not have."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from calque.data.lines import LINE_LIMIT, Line, path_lines
from calque.engine.types import Request
from calque.errors import DataError, TextError, first_few
from calque.text.scripts import is_unspaced

SHOWN = 20  # mistakes of a file that are told


class Requests:
    """Makes requests of lines: with the prefix of the same line, the phrases for terms that occur in it, and marks.

    `name` is what messages call the lines' file; marks count where `inline` is true. A phrase that a mark asks for is
    not asked for again by a term.
    """

    def __init__(self, name: str, *, prefixes: Path | None, terms: Path | None, inline: bool) -> None:
        self.name, self.inline = name, inline
        self.prefixes = [line.text.strip() for line in read_whole_lines(prefixes)] if prefixes else None
        self.file = prefixes
        self.terms = [(_pattern(term), phrase) for term, phrase in read_pairs(terms)] if terms else []

    def of(self, lines: Sequence[Line]) -> list[Request]:
        """One request a line."""
        return [self._with_terms(self._marked(line)._replace(prefix=self._prefix(line))) for line in lines]

    def end(self, lines: int) -> None:
        """Raises a DataError if there are more prefixes than lines, of which there were so many."""
        if self.prefixes is not None and len(self.prefixes) > lines:
            raise DataError(
                f"{self.file}: has {len(self.prefixes):,} lines, and {self.name} ends at line {lines:,}; "
                "they must line up, so the translations may have had the wrong prefixes"
            )

    def _marked(self, line: Line) -> Request:
        if not self.inline:
            return Request(line.text)
        try:
            return Request.inline(line.text)
        except TextError as error:
            raise DataError(f"{self.name}: line {line.number}: {error}") from None

    def _with_terms(self, request: Request) -> Request:
        found = [(phrase, pattern.search(request.text)) for pattern, phrase in self.terms]
        new = [(phrase, match.start()) for phrase, match in found if match and phrase not in request.required]
        required, places = (tuple(side) for side in zip(*new, strict=True)) if new else ((), ())
        return request._replace(required=request.required + required, places=request.places + places)

    def _prefix(self, line: Line) -> str:
        if self.prefixes is None:
            return ""
        if line.number > len(self.prefixes):
            raise DataError(f"{self.file}: ends at line {len(self.prefixes)}, and the input goes on; they must line up")
        return self.prefixes[line.number - 1]


def _pattern(term: str) -> re.Pattern[str]:
    """Finds a term as whole words; in a script without spaces, anywhere."""
    escaped = re.escape(term)
    return re.compile(escaped if any(map(is_unspaced, term)) else rf"(?<!\w){escaped}(?!\w)")


def read_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """The two fields of every line of a tab-separated file; malformed lines are rejected together."""
    mistakes = []
    for line in read_whole_lines(path):
        parts = [part.strip() for part in line.text.split("\t")]
        if len(parts) == 2 and all(parts):
            yield parts[0], parts[1]
        elif any(parts):
            mistakes.append(f"{path}: line {line.number}: expected two fields with a tab between them: {line.text!r}")
    if mistakes:
        raise DataError("\n".join(first_few(mistakes, shown=SHOWN)))


def read_whole_lines(path: Path) -> list[Line]:
    """Every line of a file; lines that are too long to be meant are rejected."""
    lines = list(path_lines(path, invalid="fail"))
    for line in lines:
        if line.cut:
            raise DataError(f"{path}: line {line.number}: longer than {LINE_LIMIT:,} bytes")
    return lines
