"""The exception tree.

CalqueError
├── UserError            a mistake the user can correct; one message, exit code 2
│   ├── ConfigError      all problems of a config at once
│   ├── DataError        an unusable corpus file, with file, line and byte
│   ├── TextError        unusable text or an unusable tokenizer
│   └── FolderError      a run or model folder that is damaged, hostile, locked or in an unsupported format
├── RequestError         one request cannot be answered, while others can (exit code 1)
│   ├── DeadlineError    the request was not answered in time
│   └── OutOfMemory      the request alone needs more memory than there is
├── TrainingError        training cannot continue (exit code 1); the last good state is kept; raised on all ranks
│   ├── RankError        only one rank cannot continue
│   └── ReportedByPeer   another rank reports the cause; this one exits with that rank's code where it is known
└── Interrupted          stopped on request, state saved (exit code 75)
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path


class CalqueError(Exception):
    """The base class of every error that Calque raises deliberately."""

    code = 1  # the exit code of a command


class UserError(CalqueError):
    """A mistake the user can correct; the message says what was found, what was expected and what to do."""

    code = 2


class ConfigError(UserError):
    """All problems of a config, one per line, each with its key."""


class DataError(UserError):
    """A corpus file that cannot be used as it stands."""


class TextError(UserError):
    """Unusable text or an unusable tokenizer."""


class FolderError(UserError):
    """A run or model folder that is damaged, hostile, locked or in an unsupported format."""


class RequestError(CalqueError):
    """One request cannot be answered, while others can."""


class DeadlineError(RequestError):
    """A request was not answered in time."""


class OutOfMemory(RequestError):  # noqa: N818 - as torch and the field call it
    """A request needs more memory than there is, even in a batch of its own."""


class TrainingError(CalqueError):
    """Training cannot continue; the last good state is kept."""


class RankError(TrainingError):
    """One rank of a distributed run cannot continue, for a reason that the other ranks cannot detect."""


class ReportedByPeer(TrainingError):  # noqa: N818 - not a failure of this rank
    """Another rank of the distributed run reports why training ends."""

    def __init__(self, message: str, *, code: int = TrainingError.code) -> None:
        super().__init__(message)
        self.code = code


class Interrupted(CalqueError):  # noqa: N818 - not a failure
    """Training was stopped on request and has saved its state."""

    code = 75


def first_few(lines: Sequence[str], *, shown: int = 8) -> list[str]:
    """The first `shown` lines, followed by a line with the number of those left out."""
    remaining = len(lines) - shown
    return [*lines[:shown], f"... and {remaining:,} more"] if remaining > 0 else list(lines)


def shell_path(path: Path | str) -> str:
    """A path for a shell command in a message: quoted if necessary, and never mistaken for an option.

    >>> shell_path("my runs/1")
    "'my runs/1'"
    """
    text = f"./{path}" if str(path).startswith("-") else str(path)
    if text.isprintable():
        return shlex.quote(text)
    escaped = (chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\x{byte:02x}" for byte in os.fsencode(text))
    return f"$'{''.join(escaped)}'"  # line breaks, or bytes that are not UTF-8


def exit_code(error: Exception) -> int:
    """The exit code of a command that fails with this error. A file that cannot be opened counts as a user error."""
    match error:
        case CalqueError():
            return error.code
        case OSError():
            return UserError.code if error.filename is not None else 1
        case _:
            return 1
