"""The command line: what `calque` runs.

Exit codes: 0 done, 1 failed, 2 the user's mistake, 75 interrupted and saved, 130 stopped at once, 141 the reader of a
pipe left (the last two as for any program that SIGINT or SIGPIPE ends).
"""

import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

import typer

from calque import __version__
from calque.commands import (
    average,
    data,
    doctor,
    evaluate,
    generate,
    init,
    quickstart,
    runs,
    score,
    systems,
    tag,
    train,
    translate,
)
from calque.errors import CalqueError, ReportedByPeer, exit_code
from calque.training.reporting import ignore_write_errors

READER_LEFT = 128 + 13  # SIGPIPE
AT_ONCE = 128 + 2  # SIGINT
SHOWING = {typer.echo.__module__.partition(".")[0], "rich"}  # libraries that write to standard output, never to files

app = typer.Typer(
    name="calque",
    help="Sequence-to-sequence models: train, look inside, evaluate, translate.",
    epilog="Start with: calque quickstart",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(quickstart.quickstart)
app.command()(train.train)
app.command()(runs.runs)
app.command()(average.average)
app.command()(translate.translate)
app.command()(generate.generate)
app.command()(tag.tag)
app.command()(score.score)
app.command()(evaluate.evaluate)
app.add_typer(data.app, name="data")
app.command()(init.init)
app.command()(systems.systems)
app.command()(doctor.doctor)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"calque {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Sequence-to-sequence models: train, look inside, evaluate, translate."""


def run(work: Callable[[], object] = app) -> None:
    """All that a process of its own does: runs a command.

    One of several that torchrun started ends at once where that fails: a thread of the connection, which nobody closes
    then, may still hold what the ranks sent each other, and aborts an interpreter that ends before it lets go.
    """
    try:
        told(work)
    except SystemExit as end:
        if "RANK" in os.environ and isinstance(end.code, int) and end.code:
            _flush()
            os._exit(end.code)
        raise


def told(work: Callable[[], object]) -> None:
    """Does the work; a mistake of the user's is one message, never a traceback."""
    try:
        work()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # click would call it a failure
            sys.exit(READER_LEFT)
        if end.code == AT_ONCE:
            _say("stopped at once; what was saved before is intact", code=AT_ONCE)
        raise
    except ReportedByPeer as error:
        sys.exit(error.code)
    except CalqueError as error:
        _say(str(error), code=error.code)
    except OSError as error:
        why = error.strerror or error
        if error.filename is not None:
            _say(f"{error.filename}: {why}", code=exit_code(error))
        if _is_of_showing(error):
            _say(f"standard output: {why}", code=exit_code(error))
        _say(f"cannot go on: {why}; what was saved before is intact", code=exit_code(error))


def _is_of_showing(error: OSError) -> bool:
    """Whether standard output could not be written to."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals["__name__"]).partition(".")[0] in SHOWING


def _say(message: str, *, code: int) -> NoReturn:
    _flush()
    rank = os.environ.get("RANK", "0")  # of several processes that torchrun started
    with ignore_write_errors(sys.stderr):
        print(f"calque{'' if rank == '0' else f', rank {rank}'}: {message}", file=sys.stderr, flush=True)
    sys.exit(code)


def _flush() -> None:
    if sys.stdout:  # None where it was closed
        with ignore_write_errors(sys.stdout):
            sys.stdout.flush()
