"""`calque translate`."""

import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calque.commands.inputs import input_lines, input_name, refuse_unreadable
from calque.errors import DataError, TextError

if TYPE_CHECKING:
    from calque.data.lines import Line
    from calque.search.settings import SearchConfig
    from calque.translator import Translation, Translator

LINE_LIMIT = 1 << 16  # bytes of a line that are read; a model reads far less
WINDOW = 2048  # lines translated together


def translate(
    model: Annotated[Path, typer.Argument(help="A run or model folder.")],
    input: Annotated[Path | None, typer.Option(help="Sentences, one a line (plain or .gz); else stdin.")] = None,
    output: Annotated[Path | None, typer.Option(help="Where translations go; else stdout.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept a step; fewer is quicker.")] = None,
    nbest: Annotated[
        int, typer.Option(min=1, help="Print the N best: line number, score and text, tab-separated.")
    ] = 1,
    batch_tokens: Annotated[int | None, typer.Option(min=1, help="Source positions decoded together.")] = None,
    invalid: Annotated[str, typer.Option(help="A line that is not UTF-8: fail, skip (empty) or replace.")] = "fail",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Translate a file, standard input, or what you type; one line out for each line in.

    An empty line stays empty; one that is too long is cut and reported on standard error.

    Examples:

        calque translate runs/1 --input test.de --output test.hypothesis

        echo "Guten Morgen!" | calque translate runs/1

        calque translate runs/1 --nbest 5 --beam 10 < test.de
    """
    from calque.commands.choices import choice
    from calque.commands.progress import counting
    from calque.translator import load

    policy = choice(invalid, ("fail", "skip", "replace"), option="--invalid")
    refuse_unreadable(input)
    if input and output and output.exists() and output.samefile(input):
        raise DataError(f"{output}: is the input too, and would be lost; choose another --output")
    translator = load(model, device=choice(device, ("auto", "cpu", "cuda", "mps"), option="--device"))
    search = _search(translator, beam=beam, nbest=nbest, batch_tokens=batch_tokens)
    if input is None and sys.stdin.isatty():
        _converse(translator, search, nbest=nbest)
        return
    name = input_name(input)
    lines = input_lines(input, limit=LINE_LIMIT, invalid=policy)
    with (
        output.open("wb") if output else nullcontext(sys.stdout.buffer) as sink,
        counting("translating", total=None) as more,
    ):
        for window in _windows(lines, live=input is None):
            found = list(translator.stream([line.text for line in window], search=search, nbest=nbest))
            for line, translation in zip(window, found, strict=True):
                _report(line, translation, name=name, limit=search.source_limit)
                sink.write(_render(translation, number=line.number, nbest=nbest))
            sink.flush()
            more(len(window))


def _search(translator: "Translator", *, beam: int | None, nbest: int, batch_tokens: int | None) -> "SearchConfig":
    changes = {"beam": beam or max(translator.search.beam, nbest), "batch_tokens": batch_tokens}
    return translator.search.model_copy(update={key: value for key, value in changes.items() if value})


def _render(translation: "Translation", *, number: int, nbest: int) -> bytes:
    if nbest == 1:
        return f"{translation.text}\n".encode()
    return "".join(f"{number}\t{each.score:.4f}\t{each.text}\n" for each in translation.candidates).encode()


def _report(line: "Line", translation: "Translation", *, name: str, limit: int) -> None:
    """Says on standard error what of a line was not translated."""
    if line.invalid is not None:
        typer.echo(f"{name}: line {line.number}: byte {line.invalid} is not UTF-8", err=True)
    if line.cut or translation.source_cut:
        typer.echo(f"{name}: line {line.number}: too long; only its beginning ({limit} pieces) was read", err=True)
    elif translation.candidates[0].cut:
        typer.echo(f"{name}: line {line.number}: the translation reached its maximum length", err=True)


def _windows(lines: Iterator["Line"], *, live: bool) -> Iterator[list["Line"]]:
    """Lines to translate together: WINDOW of them from a file; from a pipe whatever is there, so nobody waits."""
    ready: queue.Queue[Line | Exception | None] = queue.Queue(maxsize=2 * WINDOW)

    def read() -> None:
        try:
            for line in lines:
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


def _converse(translator: "Translator", search: "SearchConfig", *, nbest: int) -> None:
    typer.echo("Type a sentence and press Enter; Ctrl-D ends.", err=True)
    prompt = "> " if sys.stdout.isatty() else ""  # results alone go into a file
    while True:
        try:
            found = list(translator.stream([input(prompt)], search=search, nbest=nbest))
        except EOFError:
            return
        except (TextError, UnicodeDecodeError) as error:
            typer.echo(f"that line is not text: {error}", err=True)
            continue
        for translation in found:
            if translation.source_cut:
                typer.echo(f"too long: only the first {search.source_limit} pieces were read", err=True)
            for candidate in translation.candidates:
                typer.echo(candidate.text if nbest == 1 else f"{candidate.score:8.3f}  {candidate.text}")
