"""Translates the lines of a file, a pipe or a terminal as soon as they arrive."""

import queue
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from math import inf
from typing import NamedTuple

import typer

from calque.commands.output import DirectOutput, ResumableFile
from calque.commands.progress import counting
from calque.commands.rendering import Rendering, TranslatedLine, one_line, render
from calque.data.lines import LINE_LIMIT, Line
from calque.engine import Engine, PhraseEngine, Request, Translation
from calque.engine.constraint_files import RequestBuilder
from calque.engine.engine import WINDOW
from calque.engine.inline import has_mark
from calque.errors import CalqueError, DataError, RequestError, TextError, UserError
from calque.search.settings import SearchConfig

INVITATION = "Type a sentence and press Enter; Ctrl-D ends."
INVALID = "not UTF-8"
CUT = "the translation reached its maximum length"
EMPTY = "the translation is empty"
MISSING_PHRASE = "a required phrase is missing from the translation"
NO_TRANSLATION = (
    "no translation: the constraints leave no possible next word, or the model's probabilities are not numbers (try "
    "--precision float32)"
)
MARKED = "<term ...> is translated as text; use --inline if it marks a required phrase"
ODD = {
    "loop": "the translation repeats itself",
    "short": "the translation is far shorter than its source",
    "long": "the translation is far longer than its source",
}
SHOWN = 10  # lines reported per kind of warning before they are only counted


class LineTranslator(NamedTuple):
    """Translates lines with an engine: builds one request per line, and combines each line with the engine's answer."""

    engine: Engine | PhraseEngine
    requests: RequestBuilder

    @property
    def search(self) -> SearchConfig:
        """The search settings of the requests or, if they have none, those of the model."""
        if self.requests.template.search is not None:
            return self.requests.template.search
        return self.engine.models.search if isinstance(self.engine, Engine) else self.engine.translator.search

    def translate(self, lines: Sequence[Line]) -> Iterator[TranslatedLine]:
        """Yields the translation of every line, in order, or an error in its place."""
        requests = [self._request(line) for line in lines]
        answers = self.engine.answers(request for request in requests if isinstance(request, Request))
        for line, request in zip(lines, requests, strict=True):
            if isinstance(request, Request):
                yield TranslatedLine(line, request.text, next(answers))
            else:
                yield TranslatedLine(line, line.text, request)

    def _request(self, line: Line) -> Request | TextError:
        try:
            return self.requests.build(line)
        except TextError as error:
            return error


class AllWords:
    """Counts the lines for which search considered all words instead of a shortlist."""

    def __init__(self) -> None:
        self.lines = self.translated = 0

    def count(self, translation: Translation) -> None:
        """Adds the translation of one line to both counts; empty translations are not counted."""
        if best := next((candidate for candidate in translation.candidates if candidate.pieces), None):
            self.translated += 1
            self.lines += not best.shortlisted

    def described(self, *, threshold: float) -> str:
        """A message that says how many lines were translated with all words, given the `shortlist_threshold`."""
        share = f" ({100 * self.lines / self.translated:.1f} %)" if self.translated else ""
        return (
            f"shortlist: {self.lines:,} of {self.translated:,} lines{share} were translated with the whole vocabulary "
            f"(shortlist_threshold={threshold:g})"
        )


class LineWarnings:
    """Warns about lines of a file. The first few warnings of each kind are printed, the others counted at the end."""

    def __init__(self, name: str, *, shown: float = SHOWN) -> None:
        self.name, self.shown = name, shown
        self.counts: Counter[str] = Counter()
        self.has_mentioned_marks = False
        self.all_words = AllWords()
        self.errors = 0
        """The number of lines that have an error instead of a translation."""
        self.code = UserError.code

    def warn(self, message: str, *, line: int, kind: str | None = None) -> None:
        """Warns about a line, unless enough lines with the same `kind` (by default, the message) were reported."""
        kind = kind or message
        self.counts[kind] += 1
        if self.counts[kind] <= self.shown:
            typer.echo(f"{self.name}: line {line}: {message}", err=True)

    def mention_marks(self, lines: Sequence[Line]) -> None:
        """Warns about the first line with terminology markup; called if the markup is translated as ordinary text."""
        marked = () if self.has_mentioned_marks else (line.number for line in lines if has_mark(line.text))
        for number in islice(marked, 1):
            self.has_mentioned_marks = True
            self.warn(MARKED, line=number)

    def summarise(self) -> None:
        """For each kind of warning that was not printed for every line, prints the total number of lines."""
        for kind, count in self.counts.items():
            if count > self.shown:
                typer.echo(f"{self.name}: {count:,} lines in all: {kind}", err=True)

    def refuse_errors(self) -> None:
        """Raises an error if any lines could not be translated; called after the last line."""
        if self.errors:
            lines = "1 line" if self.errors == 1 else f"{self.errors:,} lines"
            kind = UserError if self.code == UserError.code else RequestError
            raise kind(f"{self.name}: {lines} could not be translated; the output is empty there")


def stream(
    translator: LineTranslator,
    lines: Iterator[Line],
    *,
    live: bool,
    typed: bool = False,
    rendering: Rendering,
    sink: ResumableFile | DirectOutput,
) -> None:
    """Writes the translations of lines, and resumes an interrupted file; if `live`, lines are translated on arrival.

    If lines are `typed`, a prompt for input is printed instead of a progress bar. The output of a line that cannot be
    translated is empty, and the command fails at the end.
    """
    if typed:
        typer.echo(INVITATION, err=True)
    with sink, counting("translating", total=None, quiet=typed) as advance:
        _report_resumption(sink)
        done = sink.lines
        warnings = LineWarnings(translator.requests.name)
        warnings.errors = sink.errors
        for window in windows(lines, live=live, skip=done):
            if not translator.requests.inline:
                warnings.mention_marks(window)
            for translated in translator.translate(window):
                _report(translated, warnings, limit=translator.search.source_limit)
                sink.write(render(translated, rendering=rendering))
            sink.flush()
            advance(len(window))
            done = window[-1].number
            sink.checkpoint(done, errors=warnings.errors)
        warnings.summarise()
        if translator.search.shortlist:
            typer.echo(warnings.all_words.described(threshold=translator.search.shortlist_threshold), err=True)
        translator.requests.check_line_count(done)
    if sink.path is not None and sys.stderr.isatty():
        path = sink.requested if isinstance(sink, ResumableFile) else sink.path
        typer.echo(f"wrote {path}: translations of {done:,} {'line' if done == 1 else 'lines'}", err=True)
    warnings.refuse_errors()


def _report_resumption(sink: ResumableFile | DirectOutput) -> None:
    """Reports that an interrupted output file is resumed or discarded, or that the new one cannot be resumed later."""
    if sink.lines:
        typer.echo(f"{sink.path}: resuming after line {sink.lines:,}", err=True)
    elif isinstance(sink, ResumableFile) and sink.discarded:
        discarded = f"{sink.discarded:,} lines from another command or other files were discarded"
        typer.echo(f"{sink.path}: starting again; {discarded}", err=True)
    elif isinstance(sink, ResumableFile) and sink.made_from is None:
        typer.echo(f"{sink.path}: the input is a pipe, so the output cannot be resumed if it is interrupted", err=True)


def converse(translator: LineTranslator, *, rendering: Rendering | None) -> None:
    """Translates lines as they are typed at a terminal, in the format of output files if `rendering` is given."""
    typer.echo(INVITATION, err=True)
    prompt = "> " if sys.stdout.isatty() else ""  # a file receives translations only
    number, warnings = 1, LineWarnings(translator.requests.name, shown=inf)
    while True:
        try:
            text = input(prompt)
            text.encode()  # invalid bytes of a terminal come as lone surrogates
            line = Line(text, number, cut=False, invalid=None)
            if not translator.requests.inline:
                warnings.mention_marks([line])
            (translated,) = translator.translate([line])
        except EOFError:
            return
        except UnicodeError:
            typer.echo("this line is not UTF-8", err=True)
            continue
        except DataError as error:
            typer.echo(str(error), err=True)
            continue
        if isinstance(translated.answer, CalqueError):
            typer.echo(str(translated.answer), err=True)
            continue
        number += 1
        _report(translated, warnings, limit=translator.search.source_limit)
        if rendering is not None:
            typer.echo(render(translated, rendering=rendering), nl=False)
            continue
        for candidate in translated.answer.candidates:
            text = one_line(candidate.text)
            typer.echo(text if translator.requests.template.nbest == 1 else f"{candidate.score:8.3f}  {text}")


def _report(translated: TranslatedLine, warnings: LineWarnings, *, limit: int) -> None:
    """Warns if a line has no translation, was not read in full, or has a translation that looks wrong."""
    line, translation = translated.line, translated.answer
    if isinstance(translation, CalqueError):
        warnings.errors += 1
        warnings.code = min(warnings.code, translation.code)
        warnings.warn(str(translation), line=line.number, kind="not translated")
        return
    warnings.all_words.count(translation)
    best = translation.candidates[0]
    has_translation = best.log_prob > -inf
    if line.invalid is not None:
        warnings.warn(f"byte number {line.invalid} of the line is not UTF-8", line=line.number, kind=INVALID)
    messages = []
    if translation.source_cut:
        messages.append(f"too long; only its beginning ({limit} pieces) was read")
    elif line.cut:
        messages.append(f"too long; only its beginning ({LINE_LIMIT:,} bytes) was read")
    elif best.cut and has_translation:
        messages.append(CUT)
    if translated.source.strip() and not best.text.strip():
        messages.append(EMPTY if has_translation else NO_TRANSLATION)
    else:
        messages += [*([MISSING_PHRASE] if best.missing_phrase else []), *(ODD[sign] for sign in best.oddities)]
    for message in messages:
        warnings.warn(message, line=line.number)


def windows(lines: Iterator[Line], *, live: bool, skip: int = 0) -> Iterator[list[Line]]:
    """Yields the lines after the first `skip` in groups of WINDOW lines or, if `live`, of those that have arrived."""
    ready: queue.Queue[Line | Exception | None] = queue.Queue(maxsize=2 * WINDOW)

    def read() -> None:
        try:
            for line in islice(lines, skip, None):
                ready.put(line)
        except Exception as error:  # raised again by the reader of the queue
            ready.put(error)
        ready.put(None)

    threading.Thread(target=read, daemon=True).start()
    window: list[Line] = []
    while True:
        must_wait = not window or (not live and len(window) < WINDOW)
        try:
            line = ready.get(block=must_wait)
        except queue.Empty:
            line = None
            yield window
            window = []
            continue
        if line is None or isinstance(line, Exception):
            if window:
                yield window
            if line is not None:
                raise line
            return
        window.append(line)
        if len(window) >= WINDOW:
            yield window
            window = []
