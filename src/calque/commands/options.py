"""Options and arguments that several commands share; help lists their choices, and shells complete them."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from calque.commands.completion import config_keys, search_keys, system_names

DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("float32", "bfloat16", "float64", "int8")
"""As in calque.devices, which imports torch."""
LANGUAGES = ("zh", "en", "de")


def choice_option(*names: str, choices: Sequence[str], help: str) -> Any:
    """An option with fixed choices; `names` are given if they differ from the parameter's name.

    The value is checked by `inputs.choice`, whose message names all choices.
    """

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return typer.Option(*names, help=help, metavar=f"[{'|'.join(choices)}]", autocompletion=complete)


def settings_argument(*, help: str) -> Any:
    """The settings of a config as KEY=VALUE."""
    return typer.Argument(metavar="[KEY=VALUE]...", help=help, autocompletion=config_keys)


def search_argument(*, help: str) -> Any:
    """Search settings as KEY=VALUE."""
    return typer.Argument(metavar="[KEY=VALUE]...", help=help, autocompletion=search_keys)


def system_option(*, help: str) -> Any:
    """The name of a system."""
    return typer.Option(help=help, autocompletion=system_names)


Device = Annotated[str, choice_option(choices=DEVICES, help="auto: the fastest available.")]
Precision = Annotated[
    str, choice_option(choices=PRECISIONS, help="bfloat16: half the memory, for GPUs; int8: twice as fast, for CPUs.")
]
