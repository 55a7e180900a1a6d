"""What can go wrong, as one tree.

CalqueError
├── UserError            the user can mend it; one message, exit code 2
│   ├── ConfigError      every problem of a config at once
│   ├── DataError        a corpus file: which file, which line, which byte
│   ├── TextError        text or a tokenizer that cannot be used
│   └── FolderError      a run or model folder that is damaged, hostile, locked or of another format
├── TrainingError        the run cannot go on (exit code 1); the last good state is kept; all ranks raise it together
│   ├── RankError        one rank alone cannot go on
│   └── ToldElsewhere    another rank says why; it ends with that one's exit code, where that is known
└── Interrupted          asked to stop; saved (exit code 75)
"""

from collections.abc import Sequence


class CalqueError(Exception):
    """Anything Calque raises on purpose."""

    code = 1  # that a command exits with


class UserError(CalqueError):
    """A mistake the user can mend: says what was found, what was expected and what to do."""

    code = 2


class ConfigError(UserError):
    """All problems of a config, one a line, each with its key."""


class DataError(UserError):
    """A corpus file that cannot be used as it is."""


class TextError(UserError):
    """Text or a tokenizer that cannot be used."""


class FolderError(UserError):
    """A run or model folder that is damaged, hostile, locked or of another format."""


class TrainingError(CalqueError):
    """Training cannot go on; the last good state is kept."""


class RankError(TrainingError):
    """One of the processes that train together cannot go on, and only it knows why."""


class ToldElsewhere(TrainingError):  # noqa: N818 - no failure of its own
    """Another of the processes that train together says why they end."""

    def __init__(self, message: str, *, code: int = TrainingError.code) -> None:
        super().__init__(message)
        self.code = code


class Interrupted(CalqueError):  # noqa: N818 - not a failure
    """Training was asked to stop and has saved its state."""

    code = 75


def first_few(lines: Sequence[str], *, shown: int = 8) -> list[str]:
    """The first of many problems, and how many more there are."""
    left = len(lines) - shown
    return [*lines[:shown], f"... and {left:,} more"] if left > 0 else list(lines)


def exit_code(error: Exception) -> int:
    """What a command exits with; a file that cannot be opened is the user's to mend."""
    match error:
        case CalqueError():
            return error.code
        case OSError():
            return UserError.code if error.filename is not None else 1
        case _:
            return 1
