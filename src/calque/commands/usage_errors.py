"""Rewrites the option parser's usage errors in Calque's own style."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import typer

from calque.errors import ConfigError

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The base class of the option parser's errors, which Typer does not export."""


def refuse_usage(error: Exception, *, ctx: Any) -> None:
    """Raises a ConfigError for an error of the option parser; a request for help is left to the caller."""
    if type(error).__name__ != "NoArgsIsHelpError":
        raise ConfigError(with_help(_problem(error, ctx=ctx), ctx=ctx)) from None


def with_help(problem: str, *, ctx: Any) -> str:
    """The error message followed by the command that prints help."""
    return f"{problem}{' See' if problem.endswith('?') else '; see'} {command_line(ctx)} --help"


def command_line(ctx: Any) -> str:
    """The name of a command with its group, as in `calque data check`."""
    names: list[str] = []
    while ctx.parent is not None:
        names.insert(0, str(ctx.info_name))
        ctx = ctx.parent
    return " ".join(["calque", *names])


def suggestion(word: str, known: Iterable[str]) -> str:
    """A suggestion such as "; did you mean train?" if a known word resembles the given one; otherwise empty."""
    names = sorted(known, key=len)
    longer = [name for name in names if len(word) > 3 and name.startswith(word)]
    close = longer or get_close_matches(word, names, n=1, cutoff=0.7)
    return f"; did you mean {close[0]}?" if close else ""


def _problem(error: Any, *, ctx: Any) -> str:
    parameters = ctx.command.get_params(ctx)
    known = {name: item for item in parameters for name in (*item.opts, *item.secondary_opts) if name.startswith("-")}
    match type(error).__name__:
        case "NoSuchOption":
            return f"no such option: {error.option_name}{suggestion(error.option_name, known)}"
        case "MissingParameter" if error.param is not None:
            return f"{_name(error.param)} is missing: {_decapitalised(error.param.help or 'a value')}"
        case "BadParameter" if error.param is not None and error.param.nargs > 1:
            return _several(_name(error.param), error.param)
        case "BadParameter" if error.param is not None:
            return f"{_name(error.param)}: {_decapitalised(error.message)}"
        case "BadOptionUsage" if error.option_name in known:
            if known[error.option_name].is_flag:
                return f"{error.option_name} takes no value"
            if known[error.option_name].nargs > 1:
                return _several(error.option_name, known[error.option_name])
            return f"{error.option_name} needs a value: {known[error.option_name].metavar or 'VALUE'}"
        case _:
            message = error.format_message()
            if extra := re.fullmatch(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)", message):
                return f"unexpected argument: {extra[1]}"
            return _decapitalised(message)


def _several(name: str, parameter: Any) -> str:
    """The error message for an option that takes several values but was given fewer."""
    return f"{name} needs {parameter.nargs} values, {parameter.metavar}: {_decapitalised(parameter.help or 'values')}"


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    return str(parameter.opts[0])


def _decapitalised(text: str) -> str:
    text = text.rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text
