"""The command line `calque`.

Exit codes: 0 done, 1 failed, 2 the user's mistake, 75 interrupted and saved, 130 stopped immediately, 141 the output
pipe was closed (the last two as for any program that SIGINT or SIGPIPE ends).
"""

import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

import typer

from calque import __version__
from calque.commands import (
    align,
    average,
    compare,
    data,
    doctor,
    evaluate,
    generate,
    init,
    inspect,
    quickstart,
    runs,
    score,
    systems,
    tag,
    train,
    translate,
)
from calque.commands.option_hints import HintingCommand
from calque.commands.standard_streams import prepare_streams
from calque.errors import CalqueError, ReportedByPeer, exit_code
from calque.training.reporting import ignore_write_errors

PIPE_CLOSED = 128 + 13  # SIGPIPE
STOPPED = 128 + 2  # SIGINT
OUT_OF_MEMORY = (
    "out of memory; to generate text, lower --beam, --nbest, batch_tokens, samples, minimum or maximum; to train, "
    "lower training.batch.tokens or the model's size; to align, lower --maximum or align fewer pairs at once"
)
PRINTING = {typer.echo.__module__.partition(".")[0], "rich"}  # libraries that write to standard output, never to files

app = typer.Typer(
    name="calque",
    help="Sequence-to-sequence models: train, look inside, evaluate, translate.",
    epilog="Start with: calque quickstart",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(cls=HintingCommand)(quickstart.quickstart)
app.command(cls=HintingCommand)(train.train)
app.command(cls=HintingCommand)(runs.runs)
app.command(cls=HintingCommand)(average.average)
app.command(cls=HintingCommand)(translate.translate)
app.command(cls=HintingCommand)(generate.generate)
app.command(cls=HintingCommand)(tag.tag)
app.command(cls=HintingCommand)(align.align)
app.command(cls=HintingCommand)(score.score)
app.command(cls=HintingCommand)(evaluate.evaluate)
app.command(cls=HintingCommand)(inspect.inspect)
app.command(cls=HintingCommand)(compare.compare)
app.add_typer(data.app, name="data")
app.command(cls=HintingCommand)(init.init)
app.command(cls=HintingCommand)(systems.systems)
app.command(cls=HintingCommand)(doctor.doctor)


def _version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"calque {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Sequence-to-sequence models: train, look inside, evaluate, translate."""


def run(work: Callable[[], object] = app) -> None:
    """The entry point of a process: runs a command.

    A process that torchrun started exits immediately if the command fails: the connection to the other ranks is not
    closed then, and its thread may abort an interpreter that shuts down normally.
    """
    prepare_streams()
    try:
        report_errors(work)
    except SystemExit as end:
        if "RANK" in os.environ and isinstance(end.code, int) and end.code:
            _flush()
            os._exit(end.code)
        raise


def report_errors(work: Callable[[], object]) -> None:
    """Runs `work`; a user's mistake is reported as one message, never as a traceback."""
    try:
        work()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # click would exit with 1
            sys.exit(PIPE_CLOSED)
        if end.code == STOPPED:
            _fail("stopped immediately; what was saved before is intact", code=STOPPED)
        raise
    except ReportedByPeer as error:
        sys.exit(error.code)
    except CalqueError as error:
        _fail(str(error), code=error.code)
    except OSError as error:
        reason = error.strerror or error
        if error.filename is not None:
            _fail(f"{error.filename}: {reason}", code=exit_code(error))
        if _is_from_printing(error):
            _fail(f"standard output: {reason}", code=exit_code(error))
        _fail(f"cannot continue: {reason}; what was saved before is intact", code=exit_code(error))
    except RecursionError:
        _fail("a file or a setting is nested too deeply to be read", code=2)
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        _fail(OUT_OF_MEMORY, code=1)
    except (OverflowError, ValueError) as error:
        if not _is_overflow(error):
            raise
        _fail(f"a number is too large to compute with ({error}); lower the numbers that were given", code=2)


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError):
        return True
    from calque.devices import is_out_of_memory  # loaded by every command that computes anything

    return is_out_of_memory(error)


def _is_overflow(error: Exception) -> bool:
    """Whether a number does not fit into 64 bits, which torch reports as a plain ValueError."""
    return isinstance(error, OverflowError) or "Overflow when unpacking" in str(error)


def _is_from_printing(error: OSError) -> bool:
    """Whether the error arose in writing to standard output."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals["__name__"]).partition(".")[0] in PRINTING


def _fail(message: str, *, code: int) -> NoReturn:
    _flush()
    rank = os.environ.get("RANK", "0")  # of several processes that torchrun started
    with ignore_write_errors(sys.stderr):
        print(f"calque{'' if rank == '0' else f', rank {rank}'}: {message}", file=sys.stderr, flush=True)
    sys.exit(code)


def _flush() -> None:
    if sys.stdout:  # None where it was closed
        with ignore_write_errors(sys.stdout):
            sys.stdout.flush()
