"""Reads files with one prefix or pair of terms per line, and adds these constraints to translation requests."""

import re
from collections.abc import Iterator
from pathlib import Path

from calque.data.lines import LINE_LIMIT, Line, path_lines
from calque.engine.types import Request
from calque.errors import DataError, first_few
from calque.text.scripts import is_unspaced

SHOWN = 20  # malformed lines listed per file


class RequestBuilder:
    """Builds the request for an input line from its text, its prefix, its terminology marks and the terms it contains.

    A prefix applies to the input line with the same number. All other fields are copied from `template`. `name` is the
    input's name in messages. Marks are read only if `inline` is true. If a mark and a term require the same phrase, it
    is required once.
    """

    def __init__(
        self, name: str, *, template: Request, prefixes: Path | None, terms: Path | None, inline: bool
    ) -> None:
        self.name, self.template, self.inline = name, template, inline
        self.prefixes = [line.text.strip() for line in read_whole_lines(prefixes)] if prefixes else None
        self.prefix_file = prefixes
        self.terms = [(_pattern(term), phrase) for term, phrase in read_pairs(terms)] if terms else []

    def build(self, line: Line) -> Request:
        """The translation request for an input line, with its constraints; a malformed `<term>` raises a TextError."""
        marked = Request.inline(line.text) if self.inline else Request(line.text)
        required, places = self._with_terms(marked)
        return self.template._replace(
            text=marked.text, prefix=self._prefix(line), required=required, places=places, line=line.number - 1
        )

    def check_line_count(self, lines: int) -> None:
        """Raises a DataError if there are more prefixes than `lines`, the number of input lines."""
        if self.prefixes is not None and len(self.prefixes) > lines:
            raise DataError(
                f"{self.prefix_file} has {len(self.prefixes):,} lines, but {self.name} has {lines:,}; both need "
                "the same number of lines, so the translations may have been given the wrong prefixes"
            )

    def _with_terms(self, request: Request) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The required phrases, from inline markup and the list of terms, and where in the text their words begin."""
        matches = [(phrase, pattern.search(request.text)) for pattern, phrase in self.terms]
        new = [(phrase, match.start()) for phrase, match in matches if match and phrase not in request.required]
        phrases, places = (tuple(column) for column in zip(*new, strict=True)) if new else ((), ())
        return request.required + phrases, request.places + places

    def _prefix(self, line: Line) -> str:
        if self.prefixes is None:
            return ""
        if line.number > len(self.prefixes):
            raise DataError(
                f"{self.prefix_file} ends after line {len(self.prefixes)}, but the input has more lines; "
                "give one prefix per input line"
            )
        return self.prefixes[line.number - 1]


def _pattern(term: str) -> re.Pattern[str]:
    """A pattern that matches a term only as whole words; a term in a script without spaces matches anywhere."""
    escaped = re.escape(term)
    return re.compile(escaped if any(map(is_unspaced, term)) else rf"(?<!\w){escaped}(?!\w)")


def read_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """Yields the two fields of each line of a tab-separated file; raises one DataError for all malformed lines."""
    problems = []
    for line in read_whole_lines(path):
        fields = [field.strip() for field in line.text.split("\t")]
        if len(fields) == 2 and all(fields):
            yield fields[0], fields[1]
        elif any(fields):
            problems.append(f"{path}: line {line.number}: expected two tab-separated fields, found {line.text!r}")
    if problems:
        raise DataError("\n".join(first_few(problems, shown=SHOWN)))


def read_whole_lines(path: Path) -> list[Line]:
    """All lines of a file; raises a DataError if one exceeds the length limit."""
    lines = list(path_lines(path, invalid="fail"))
    for line in lines:
        if line.cut:
            raise DataError(f"{path}: line {line.number}: longer than {LINE_LIMIT:,} bytes; shorten it")
    return lines
