"""Answers to the lines of a file or a pipe, and to what is typed, as soon as they are there."""

import sys
from collections import Counter
from collections.abc import Iterator
from math import inf

import typer

from calque.commands.answering import Answered, Answering
from calque.commands.inputs import LINE_LIMIT
from calque.commands.lines import one_line
from calque.commands.progress import counting
from calque.commands.rendering import Rendering, render
from calque.commands.resuming import Part, Through
from calque.commands.windows import windows
from calque.data.lines import Line
from calque.errors import DataError, TextError

INVITATION = "Type a sentence and press Enter; Ctrl-D ends."
SHOWN = 10  # lines that are told of each kind that looks wrong, before they are counted
EMPTY = "the translation is empty"
LACKING = "the translation lacks a phrase that must appear in it"
NONE = (
    "there is no translation: after every beginning, no word may follow by the rules that were given, or the model's "
    "probabilities are no numbers (with --precision float32 they may be)"
)
ODD = {
    "loop": "the translation repeats itself",
    "short": "the translation is far shorter than its source",
    "long": "the translation is far longer than its source",
}


def stream(
    answering: Answering,
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
        odd: Counter[str] = Counter()
        for window in windows(lines, live=live, skip=done):
            for answered in answering.answers(window):
                _report(answered, answering, odd)
                sink.write(render(answered, rendering=rendering))
            sink.flush()
            more(len(window))
            done = window[-1].number
            sink.reached(done)
        for message, count in odd.items():
            if count > SHOWN:
                typer.echo(f"{answering.requests.name}: {count:,} lines in all: {message}", err=True)
        answering.requests.end(done)


def converse(answering: Answering, *, rendering: Rendering | None) -> None:
    """Answers what is typed, line by line; as a file's lines would be where a format was asked for."""
    typer.echo(INVITATION, err=True)
    prompt = "> " if sys.stdout.isatty() else ""  # results alone go into a file
    number, odd = 1, Counter[str]()
    while True:
        try:
            text = input(prompt)
            text.encode()  # a terminal's bytes that are no text come as lone surrogates
            (answered,) = answering.answers([Line(text, number, cut=False, invalid=None)])
        except EOFError:
            return
        except UnicodeError:
            typer.echo("that line is not UTF-8", err=True)
            continue
        except (TextError, DataError) as error:
            typer.echo(str(error), err=True)
            continue
        number += 1
        _report(answered, answering, odd)
        if rendering is not None:
            typer.echo(render(answered, rendering=rendering), nl=False)
            continue
        for each in answered.translation.candidates:
            text = one_line(each.text)
            typer.echo(text if answering.nbest == 1 else f"{each.score:8.3f}  {text}")


def _report(answered: Answered, answering: Answering, odd: Counter[str]) -> None:
    """Says on standard error what of a line was not translated, or looks wrong; of all that is `odd`, the first."""
    line, translation = answered.line, answered.translation
    where = f"{answering.requests.name}: line {line.number}"
    if line.invalid is not None:
        typer.echo(f"{where}: byte {line.invalid} is not UTF-8", err=True)
    best = translation.candidates[0]
    if translation.source_cut:
        limit = answering.search.source_limit
        typer.echo(f"{where}: too long; only its beginning ({limit} pieces) was read", err=True)
    elif line.cut:
        typer.echo(f"{where}: too long; only its beginning ({LINE_LIMIT:,} bytes) was read", err=True)
    elif best.cut and best.log_prob > -inf:
        typer.echo(f"{where}: the translation reached its maximum length", err=True)
    is_empty = bool(answered.source.strip()) and not best.text.strip()
    empty = EMPTY if best.log_prob > -inf else NONE
    others = [*([LACKING] if best.lacking else []), *(ODD[sign] for sign in best.oddities)]
    for message in [empty] if is_empty else others:
        odd[message] += 1
        if odd[message] <= SHOWN:
            typer.echo(f"{where}: {message}", err=True)
