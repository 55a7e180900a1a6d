"""`calque systems`."""

from typing import Annotated

import typer


def systems(
    name: Annotated[str | None, typer.Argument(help="Print this system's whole config.")] = None,
) -> None:
    """List the named systems, or print one's config.

    Examples:

        calque systems

        calque systems luong2015
    """
    from calque.config import to_toml
    from calque.experiment import system_model
    from calque.models.systems import SYSTEMS

    if name is None:
        width = max(map(len, SYSTEMS))
        for key, system in SYSTEMS.items():
            typer.echo(f"{key:{width}}  {system.summary}")
            typer.echo(f"{'':{width}}  {system.paper}; departs: {system.departures or 'nowhere'}")
        return
    model = system_model(name)
    system = SYSTEMS[name]
    typer.echo(f"# {name}: {system.summary}")
    typer.echo(f"# {system.paper}; departs: {system.departures or 'nowhere'}")
    typer.echo(to_toml(model, section="model", comments=True), nl=False)
