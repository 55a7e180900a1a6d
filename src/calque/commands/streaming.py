"""Translates the lines of a file, a pipe or a terminal as soon as they arrive."""

import queue
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from math import inf

import typer

from calque.commands.output import DirectOutput, ResumableFile
from calque.commands.progress import counting
from calque.commands.rendering import Rendering, one_line, render
from calque.data.lines import LINE_LIMIT, Line
from calque.engine.pipeline import Pipeline, TranslatedLine
from calque.engine.translator import WINDOW
from calque.errors import DataError, TextError

INVITATION = "Type a sentence and press Enter; Ctrl-D ends."
INVALID = "not UTF-8"
CUT = "the translation reached its maximum length"
EMPTY = "the translation is empty"
MISSING_PHRASE = "the translation lacks a required phrase"
NO_TRANSLATION = (
    "no translation: the constraints allow no next word for any hypothesis, or the model's probabilities are not "
    "numbers (try --precision float32)"
)
ODD = {
    "loop": "the translation repeats itself",
    "short": "the translation is far shorter than its source",
    "long": "the translation is far longer than its source",
}
SHOWN = 10  # lines reported per kind of warning before they are only counted


class LineWarnings:
    """Warns about lines of a file: the first few of each kind one by one, the others by their number at the end."""

    def __init__(self, name: str, *, shown: float = SHOWN) -> None:
        self.name, self.shown = name, shown
        self.counts: Counter[str] = Counter()

    def warn(self, message: str, *, line: int, kind: str | None = None) -> None:
        """Warns about a line, unless enough lines of its kind (by default the message) were reported."""
        kind = kind or message
        self.counts[kind] += 1
        if self.counts[kind] <= self.shown:
            typer.echo(f"{self.name}: line {line}: {message}", err=True)

    def summarise(self) -> None:
        """Reports the number of lines of each kind that was not reported in full."""
        for kind, count in self.counts.items():
            if count > self.shown:
                typer.echo(f"{self.name}: {count:,} lines in all: {kind}", err=True)


def stream(
    pipeline: Pipeline,
    lines: Iterator[Line],
    *,
    live: bool,
    typed: bool = False,
    rendering: Rendering,
    sink: ResumableFile | DirectOutput,
) -> None:
    """Writes the translations of lines, after those of an interrupted file; `live` lines are translated on arrival.

    For `typed` lines, an invitation is printed and no progress bar.
    """
    if typed:
        typer.echo(INVITATION, err=True)
    with sink, counting("translating", total=None, quiet=typed) as advance:
        _report_resumption(sink)
        done = sink.lines
        warnings = LineWarnings(pipeline.requests.name)
        for window in windows(lines, live=live, skip=done):
            for translated in pipeline.translate(window):
                _report(translated, pipeline, warnings)
                sink.write(render(translated, rendering=rendering))
            sink.flush()
            advance(len(window))
            done = window[-1].number
            sink.checkpoint(done)
        warnings.summarise()
        pipeline.requests.check_line_count(done)


def _report_resumption(sink: ResumableFile | DirectOutput) -> None:
    """Reports whether an interrupted file is resumed, discarded, or could not be resumed."""
    if sink.lines:
        typer.echo(f"{sink.path}: resuming after line {sink.lines:,}", err=True)
    elif isinstance(sink, ResumableFile) and sink.discarded:
        discarded = f"{sink.discarded:,} lines from another command or other files were discarded"
        typer.echo(f"{sink.path}: starting again; {discarded}", err=True)
    elif isinstance(sink, ResumableFile) and sink.made_from is None:
        typer.echo(f"{sink.path}: the input is a pipe, so an interrupted output cannot be resumed", err=True)


def converse(pipeline: Pipeline, *, rendering: Rendering | None) -> None:
    """Translates typed lines one by one, in the format of files if `rendering` is given."""
    typer.echo(INVITATION, err=True)
    prompt = "> " if sys.stdout.isatty() else ""  # a file gets results only
    number, warnings = 1, LineWarnings(pipeline.requests.name, shown=inf)
    while True:
        try:
            text = input(prompt)
            text.encode()  # invalid bytes of a terminal come as lone surrogates
            (translated,) = pipeline.translate([Line(text, number, cut=False, invalid=None)])
        except EOFError:
            return
        except UnicodeError:
            typer.echo("this line is not UTF-8", err=True)
            continue
        except (TextError, DataError) as error:
            typer.echo(str(error), err=True)
            continue
        number += 1
        _report(translated, pipeline, warnings)
        if rendering is not None:
            typer.echo(render(translated, rendering=rendering), nl=False)
            continue
        for candidate in translated.translation.candidates:
            text = one_line(candidate.text)
            typer.echo(text if pipeline.nbest == 1 else f"{candidate.score:8.3f}  {text}")


def _report(translated: TranslatedLine, pipeline: Pipeline, warnings: LineWarnings) -> None:
    """Warns about a line that was not read in full, or whose translation looks wrong."""
    line, translation = translated.line, translated.translation
    best = translation.candidates[0]
    has_translation = best.log_prob > -inf
    if line.invalid is not None:
        warnings.warn(f"byte {line.invalid} is not UTF-8", line=line.number, kind=INVALID)
    messages = []
    if translation.source_cut:
        messages.append(f"too long; only its beginning ({pipeline.search.source_limit} pieces) was read")
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
    """Windows of lines after the first `skip`: WINDOW lines each, or of a `live` pipe the lines that have arrived."""
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
