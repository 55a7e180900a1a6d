"""Options and arguments that several commands share; help lists their choices, and shells complete them."""

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from calque.commands.completion import config_keys, search_keys, system_names

DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("auto", "float32", "bfloat16", "float64", "int8")
"""The names of calque.devices, which is not imported here because it imports torch."""
LANGUAGES = ("zh", "en", "de")

DATA, VALIDATION, TEST = "Training data", "Validation data", "Test data"
MODEL, RUN = "Model and settings", "Run"
INPUT_OUTPUT, SEARCH, CONSTRAINTS, UNKNOWN = "Input and output", "Search", "Constraints", "Unknown words"
MODELS, COMPUTATION = "Further models", "Computation"
"""The panels in which help groups the options of a command."""


def choice_option(*names: str, choices: Sequence[str], help: str, panel: str | None = None) -> Any:
    """An option with fixed choices; `names` are needed only if they differ from the parameter's name.

    The value is checked by `inputs.choice`, whose message names all choices.
    """

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    metavar = f"[{'|'.join(choices)}]"
    return typer.Option(*names, help=help, metavar=metavar, autocompletion=complete, rich_help_panel=panel)


def file_option(*names: str, help: str, panel: str | None = None) -> Any:
    """An option that names a file."""
    return typer.Option(*names, help=help, metavar="FILE", rich_help_panel=panel)


def folder_option(*names: str, help: str, panel: str | None = None) -> Any:
    """An option that names a folder."""
    return typer.Option(*names, help=help, metavar="FOLDER", rich_help_panel=panel)


def model_option(*names: str, help: str, panel: str | None = None) -> Any:
    """An option that names a run or model folder."""
    return typer.Option(*names, help=help, metavar="MODEL", rich_help_panel=panel)


def count_option(*names: str, help: str, at_least: int = 1, panel: str | None = None) -> Any:
    """An option whose value is a whole number."""
    return typer.Option(*names, help=help, metavar="N", parser=_whole_number(at_least=at_least), rich_help_panel=panel)


def factor_option(*names: str, help: str, panel: str | None = None) -> Any:
    """An option whose value is a factor, such as 0.25."""
    return typer.Option(*names, help=help, metavar="FACTOR", parser=_factor, rich_help_panel=panel)


def seconds_option(*names: str, help: str, panel: str | None = None) -> Any:
    """An option whose value is a duration."""
    return typer.Option(*names, help=help, metavar="SECONDS", parser=_seconds, rich_help_panel=panel)


def model_argument(*, help: str) -> Any:
    """An argument that names a run or model folder."""
    return typer.Argument(metavar="MODEL", help=help)


def settings_argument(*, help: str) -> Any:
    """An argument for settings of a config, each written as KEY=VALUE."""
    return typer.Argument(metavar="[KEY=VALUE]...", help=help, autocompletion=config_keys)


def search_argument(*, help: str) -> Any:
    """An argument for search settings, each written as KEY=VALUE."""
    return typer.Argument(metavar="[KEY=VALUE]...", help=help, autocompletion=search_keys)


def system_option(*, help: str, panel: str | None = None) -> Any:
    """An option that names a system, i.e. a predefined model such as `tiny`."""
    return typer.Option(help=help, metavar="NAME", autocompletion=system_names, rich_help_panel=panel)


def _whole_number(*, at_least: int) -> Callable[[str], int]:
    """A function that parses a whole number from `at_least` on, with an error message that says what is expected."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = at_least - 1
        if number < at_least:
            raise typer.BadParameter(f"expected a whole number of at least {at_least:,}, found {text!r}")
        return number

    return parse


def _factor(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"expected a number such as 0.25, found {text!r}") from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise typer.BadParameter(f"expected a number of seconds such as 20, found {text!r}")
    return seconds


Device = Annotated[
    str,
    choice_option(choices=DEVICES, help="The device to compute on; auto: the fastest available.", panel=COMPUTATION),
]
Precision = Annotated[
    str,
    choice_option(
        choices=PRECISIONS,
        help="auto: as stored; bfloat16: half the memory, for GPUs; int8: faster in batches, for CPUs.",
        panel=COMPUTATION,
    ),
]
