"""What `calque compare` needs to know about a task: its files and options, and how its systems are compared."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from calque.commands.compared_systems import Argument, Options
from calque.errors import ConfigError

Document = dict[str, Any]
Block = tuple[str, list[str]]
"""A table: its title and its lines."""


class ComparisonRequest(NamedTuple):
    """The systems, files and options of a command line."""

    arguments: Sequence[Argument]
    files: Mapping[str, Path]
    """The files of the test set by option, such as "--source"."""
    options: Options
    metrics: str  # separated by commas
    bootstrap: int  # resamples
    sentences: int  # that are shown for each direction
    columns: str | None = None
    train_source: list[Path] | None = None
    train_target: list[Path] | None = None
    train_text: list[Path] | None = None
    training_data: bool = True
    tagger: Path | None = None
    sentence_labels: Path | None = None


class TaskComparison(NamedTuple):
    """How the systems of one task are compared."""

    task: str
    option: str
    """The option whose presence selects this task."""
    usage: str  # the options and the systems, such as "--text for language models"
    compare: Callable[[ComparisonRequest], Document]
    tables: Callable[[Document], Iterator[Block]]
    takes: frozenset[str] = frozenset()
    """The task-specific options that this task accepts."""
    searches: bool = False  # whether systems may have search settings

    def refuse_options(self, given: Sequence[str]) -> None:
        """Raises a ConfigError for options that have no effect on this task."""
        if idle := [name for name in given if name not in self.takes]:
            raise ConfigError(f"{', '.join(idle)}: not supported for the task {self.task}")

    def refuse_settings(self, arguments: Sequence[Argument]) -> None:
        """Raises a ConfigError if search settings are given for systems that do not search."""
        searching = [argument for argument in arguments if argument.settings]
        if searching and not self.searches:
            listed = ", ".join(f"{argument.path} ({', '.join(argument.settings)})" for argument in searching)
            raise ConfigError(f"{listed}: search settings are not supported for the task {self.task}; leave them out")


def refuse_files(arguments: Sequence[Argument], reason: str) -> None:
    """Raises a ConfigError if a system is given as a file with its output; `reason` says why a model is needed."""
    if files := [str(argument.path) for argument in arguments if argument.is_file]:
        raise ConfigError(f"{', '.join(files)}: not a run or model folder; {reason}")
