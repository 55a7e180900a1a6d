"""The command `calque systems`, which lists the named systems: model configs that `calque train --system` accepts."""

from typing import Annotated

import typer

from calque.commands.completion import system_names
from calque.commands.options import (
    factor_option,
)
from calque.errors import ConfigError


def systems(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Print this system as the model section of a config.",
            autocompletion=system_names,
        ),
    ] = None,
    scale: Annotated[float, factor_option(help="Multiply the system's widths, heads and layers, e.g. by 0.25.")] = 1.0,
) -> None:
    """List the named systems with their papers, or print one system as the model section of a config.

    Examples:

        calque systems

        calque systems luong2015-local-p

        calque systems gnmt2016 --scale 0.25 > model.toml
    """
    from calque.config import to_toml
    from calque.models.systems import SYSTEMS, changed_sizes, system_model

    if name is None:
        if scale != 1:
            raise ConfigError("--scale applies to one system; name it, e.g. calque systems luong2015 --scale 0.25")
        width = max(map(len, SYSTEMS))
        for key, system in SYSTEMS.items():
            typer.echo(f"{key:{width}}  {system.summary}")
            typer.echo(f"{'':{width}}  {system.paper}; departures from it: {system.departures or 'none'}")
        return
    model = system_model(name, scale=scale)
    system = SYSTEMS[name]
    if scale == 1:
        typer.echo(f"# {name}: {system.summary}")
    else:
        typer.echo(f"# {name}, scaled by {scale}; its widths, heads and layers (those at full size in parentheses):")
        for line in changed_sizes(name, scale=scale):
            typer.echo(f"#   {line}")
        typer.echo(f"# At full size: {system.summary}")
    typer.echo(f"# {system.paper}; departures from it: {system.departures or 'none'}")
    typer.echo(to_toml(model, section="model", comments=True), nl=False)
