"""Answers to the lines of a file or a pipe, and to what is typed, as soon as they are there."""

import sys
from collections.abc import Iterator
from math import inf

import typer

from calque.commands.answering import Answered, Answering
from calque.commands.inputs import LINE_LIMIT
from calque.commands.lines import one_line
from calque.commands.progress import counting
from calque.commands.remarks import Remarks
from calque.commands.rendering import Rendering, render
from calque.commands.resuming import Part, Through
from calque.commands.windows import windows
from calque.data.lines import Line
from calque.errors import DataError, TextError

INVITATION = "Type a sentence and press Enter; Ctrl-D ends."
INVALID = "not UTF-8"
CUT = "the translation reached its maximum length"
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
        remarks = Remarks(answering.requests.name)
        for window in windows(lines, live=live, skip=done):
            for answered in answering.answers(window):
                _report(answered, answering, remarks)
                sink.write(render(answered, rendering=rendering))
            sink.flush()
            more(len(window))
            done = window[-1].number
            sink.reached(done)
        remarks.end()
        answering.requests.end(done)


def converse(answering: Answering, *, rendering: Rendering | None) -> None:
    """Answers what is typed, line by line; as a file's lines would be where a format was asked for."""
    typer.echo(INVITATION, err=True)
    prompt = "> " if sys.stdout.isatty() else ""  # results alone go into a file
    number, remarks = 1, Remarks(answering.requests.name, shown=inf)  # each answer is read by itself
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
        _report(answered, answering, remarks)
        if rendering is not None:
            typer.echo(render(answered, rendering=rendering), nl=False)
            continue
        for each in answered.translation.candidates:
            text = one_line(each.text)
            typer.echo(text if answering.nbest == 1 else f"{each.score:8.3f}  {text}")


def _report(answered: Answered, answering: Answering, remarks: Remarks) -> None:
    """Says on standard error what of a line was not translated, or looks wrong."""
    line, translation = answered.line, answered.translation
    best = translation.candidates[0]
    is_there = best.log_prob > -inf
    if line.invalid is not None:
        remarks.say(f"byte {line.invalid} is not UTF-8", line=line.number, kind=INVALID)
    said = []
    if translation.source_cut:
        said.append(f"too long; only its beginning ({answering.search.source_limit} pieces) was read")
    elif line.cut:
        said.append(f"too long; only its beginning ({LINE_LIMIT:,} bytes) was read")
    elif best.cut and is_there:
        said.append(CUT)
    if answered.source.strip() and not best.text.strip():
        said.append(EMPTY if is_there else NONE)
    else:
        said += [*([LACKING] if best.lacking else []), *(ODD[sign] for sign in best.oddities)]
    for message in said:
        remarks.say(message, line=line.number)
