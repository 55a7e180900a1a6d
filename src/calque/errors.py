"""What can go wrong, as one tree.

CalqueError
├── UserError            the user can mend it; one message, exit code 2
│   ├── ConfigError      every problem of a config at once
│   ├── DataError        a corpus file: which file, which line, which byte
│   ├── TextError        text or a tokenizer that cannot be used
│   └── FolderError      a run or model folder that is damaged, hostile, locked or of another format
├── TrainingError        the run cannot go on (exit code 1); the last good state is kept
│   └── ToldElsewhere    the same on another rank, which says why
└── Interrupted          asked to stop; saved (exit code 75)
"""


class CalqueError(Exception):
    """Anything Calque raises on purpose."""


class UserError(CalqueError):
    """A mistake the user can mend: says what was found, what was expected and what to do."""


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


class ToldElsewhere(TrainingError):  # noqa: N818 - no failure of its own
    """Another of the processes that train together says why they end."""


class Interrupted(CalqueError):  # noqa: N818 - not a failure
    """Training was asked to stop and has saved its state."""
