"""The command line `calque`.

Exit codes: 0 done, 1 failed, 2 the user's mistake, 75 interrupted and saved, 130 stopped immediately, 141 the output
pipe was closed (the last two as for any program that SIGINT or SIGPIPE ends).
"""

import gc
import os
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from calque.commands.applications import COMMANDS, application, application_for
from calque.commands.standard_streams import prepare_streams
from calque.errors import CalqueError, ReportedByPeer, exit_code
from calque.training.write_errors import ignore_write_errors

if TYPE_CHECKING:
    app: typer.Typer

PIPE_CLOSED = 128 + 13  # SIGPIPE
STOPPED = 128 + 2  # SIGINT
OUT_OF_MEMORY = (
    "out of memory; to generate or translate, lower --beam, --nbest, batch_tokens, samples, minimum or maximum; to "
    "train, lower training.batch.tokens or the model's size; to align, lower --maximum or align fewer pairs at once"
)
PRINTING = {typer.echo.__module__.partition(".")[0], "rich"}  # libraries that write to standard output, never to files


def __getattr__(name: str) -> Any:
    """Builds `app`, the application with all commands, on first use."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()["app"] = application(COMMANDS)
    return globals()["app"]


def run(work: Callable[[], object] | None = None) -> None:
    """The entry point of a process: runs `work` if it is given, otherwise the command in the process's arguments.

    A process that torchrun started exits immediately if the command fails. Its connection to the other ranks is still
    open then, and the connection's thread may abort an interpreter that shuts down normally.
    """
    prepare_streams()
    try:
        report_errors(work or application_for(sys.argv[1:]))
    except SystemExit as end:
        if "RANK" in os.environ and isinstance(end.code, int) and end.code:
            _flush()
            os._exit(end.code)
        raise
    finally:
        if "RANK" not in os.environ:  # a rank's connections must be collected: their threads would abort the process
            gc.freeze()  # else Python would search torch's many objects for garbage before it exits, for half a second


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
        _fail(f"a number is too large to compute with ({error}); use smaller numbers", code=2)


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError):
        return True
    from calque.devices import is_out_of_memory  # loaded by every command that computes anything

    return is_out_of_memory(error)


def _is_overflow(error: Exception) -> bool:
    """Whether an exception means that a number does not fit into 64 bits; torch raises a plain ValueError then."""
    return isinstance(error, OverflowError) or "Overflow when unpacking" in str(error)


def _is_from_printing(error: OSError) -> bool:
    """Whether the error was raised while writing to standard output."""
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
