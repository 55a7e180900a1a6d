"""Answers to the lines of a file or a pipe, and to what is typed, as soon as they are there."""

import queue
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from math import inf

import typer

from calque.commands.output import Part, Through
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


MISSING_PHRASE = "the translation lacks a phrase that must appear in it"


NONE = (
    "there is no translation: after every beginning, no word may follow by the rules that were given, or the model's "
    "probabilities are no numbers (with --precision float32 they may be)"
)


ODD = {
    "loop": "the translation repeats itself",
    "short": "the translation is far shorter than its source",
    "long": "the translation is far longer than its source",
}


SHOWN = 10  # lines that are told of each kind, before they are counted


class LineWarnings:
    """Says of the lines of a file what is to be said: of each kind the first few, and at the end how many there are."""

    def __init__(self, name: str, *, shown: float = SHOWN) -> None:
        self.name, self.shown = name, shown
        self.counts: Counter[str] = Counter()

    def say(self, message: str, *, line: int, kind: str | None = None) -> None:
        """Says it of a line, unless as much was said of its kind (the message itself, where none is given)."""
        kind = kind or message
        self.counts[kind] += 1
        if self.counts[kind] <= self.shown:
            typer.echo(f"{self.name}: line {line}: {message}", err=True)

    def end(self) -> None:
        """Says how many lines there were of each kind that was not told in full."""
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
    sink: Part | Through,
) -> None:
    """Writes the answers to lines, behind what a cut file holds already; where they are `live`, nobody waits.

    Who types them is told so, and sees no bar.
    """
    if typed:
        typer.echo(INVITATION, err=True)
    with sink, counting("translating", total=None, quiet=typed) as more:
        done = sink.lines
        if done:
            typer.echo(f"{sink.path}: going on behind line {done:,}", err=True)
        elif isinstance(sink, Part) and sink.discarded:
            left = f"{sink.discarded:,} lines that another command, or other files, had made of it are gone"
            typer.echo(f"{sink.path}: begun anew; {left}", err=True)
        elif isinstance(sink, Part) and sink.made_from is None:
            typer.echo(f"{sink.path}: made from a pipe; cut off, it would begin anew (files are resumed)", err=True)
        warnings = LineWarnings(pipeline.requests.name)
        for window in windows(lines, live=live, skip=done):
            for answered in pipeline.translate(window):
                _report(answered, pipeline, warnings)
                sink.write(render(answered, rendering=rendering))
            sink.flush()
            more(len(window))
            done = window[-1].number
            sink.reached(done)
        warnings.end()
        pipeline.requests.check_line_count(done)


def converse(pipeline: Pipeline, *, rendering: Rendering | None) -> None:
    """Answers what is typed, line by line; as a file's lines would be where a format was asked for."""
    typer.echo(INVITATION, err=True)
    prompt = "> " if sys.stdout.isatty() else ""  # results alone go into a file
    number, warnings = 1, LineWarnings(pipeline.requests.name, shown=inf)  # each answer is read by itself
    while True:
        try:
            text = input(prompt)
            text.encode()  # a terminal's bytes that are no text come as lone surrogates
            (answered,) = pipeline.translate([Line(text, number, cut=False, invalid=None)])
        except EOFError:
            return
        except UnicodeError:
            typer.echo("that line is not UTF-8", err=True)
            continue
        except (TextError, DataError) as error:
            typer.echo(str(error), err=True)
            continue
        number += 1
        _report(answered, pipeline, warnings)
        if rendering is not None:
            typer.echo(render(answered, rendering=rendering), nl=False)
            continue
        for each in answered.translation.candidates:
            text = one_line(each.text)
            typer.echo(text if pipeline.nbest == 1 else f"{each.score:8.3f}  {text}")


def _report(answered: TranslatedLine, pipeline: Pipeline, warnings: LineWarnings) -> None:
    """Says on standard error what of a line was not translated, or looks wrong."""
    line, translation = answered.line, answered.translation
    best = translation.candidates[0]
    is_there = best.log_prob > -inf
    if line.invalid is not None:
        warnings.say(f"byte {line.invalid} is not UTF-8", line=line.number, kind=INVALID)
    said = []
    if translation.source_cut:
        said.append(f"too long; only its beginning ({pipeline.search.source_limit} pieces) was read")
    elif line.cut:
        said.append(f"too long; only its beginning ({LINE_LIMIT:,} bytes) was read")
    elif best.cut and is_there:
        said.append(CUT)
    if answered.source.strip() and not best.text.strip():
        said.append(EMPTY if is_there else NONE)
    else:
        said += [*([MISSING_PHRASE] if best.missing_phrase else []), *(ODD[sign] for sign in best.oddities)]
    for message in said:
        warnings.say(message, line=line.number)


def windows(lines: Iterator[Line], *, live: bool, skip: int = 0) -> Iterator[list[Line]]:
    """Lines from the `skip`-th on: WINDOW of them from a file; from a pipe whatever is there, so nobody waits."""
    ready: queue.Queue[Line | Exception | None] = queue.Queue(maxsize=2 * WINDOW)

    def read() -> None:
        try:
            for line in islice(lines, skip, None):
                ready.put(line)
        except Exception as error:  # raised again by who reads the queue
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
