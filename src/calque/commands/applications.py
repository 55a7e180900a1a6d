"""The command line as typer applications: one with all commands, or one with a single command, which starts faster.

A command's module is imported only when it is needed: importing all commands and registering them with typer takes
longer than running a short one.
"""

import os
from collections.abc import Iterable, Sequence
from importlib import import_module

import typer

from calque import __version__
from calque.commands.command_group import CommandGroup
from calque.commands.option_hints import HintingCommand

COMMANDS = (
    "quickstart",
    "train",
    "runs",
    "average",
    "quantise",
    "shortlist",
    "translate",
    "generate",
    "tag",
    "embed",
    "recommend",
    "transcribe",
    "caption",
    "align",
    "score",
    "evaluate",
    "inspect",
    "compare",
    "init",
    "systems",
    "doctor",
    "data",
    "ngram",
)
"""The commands, in the order of `calque --help`; `calque train` is the function `train` of calque/commands/train.py."""

_GROUPS = ("data", "ngram")  # commands with subcommands: the attribute `app` of their module


def application(names: Iterable[str]) -> typer.Typer:
    """The typer application `calque` with these commands."""
    app = typer.Typer(
        name="calque",
        cls=CommandGroup,
        help="Sequence-to-sequence models: train, look inside, evaluate, translate.",
        epilog="Start with: calque quickstart",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_main)
    for name in names:
        module = import_module(f"calque.commands.{name}")
        if name in _GROUPS:
            app.add_typer(module.app, name=name)
        else:
            app.command(cls=HintingCommand)(getattr(module, name))
    return app


def application_for(arguments: Sequence[str]) -> typer.Typer:
    """The application with only the command that the arguments name; with all commands if none, or for completion."""
    is_completing = any(name.endswith("_COMPLETE") for name in os.environ)
    is_known = bool(arguments) and arguments[0] in COMMANDS
    return application([arguments[0]] if is_known and not is_completing else COMMANDS)


def _version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"calque {__version__}")
        raise typer.Exit


def _main(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Sequence-to-sequence models: train, look inside, evaluate, translate."""
