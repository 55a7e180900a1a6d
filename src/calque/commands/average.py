"""`calque average`."""

from pathlib import Path
from typing import Annotated

import typer


def average(
    run: Annotated[Path, typer.Argument(help="A run folder whose training is over, or stopped.")],
    of: Annotated[str, typer.Option(help="last: the newest checkpoints; best: those that validated best.")] = "last",
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="How many checkpoints; else all there are.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="The new model folder; else RUN/averaged.")] = None,
) -> None:
    """Make a model whose weights are the mean of a run's checkpoints; often it is a little better than any of them.

    The run's own model stays as it is; `calque evaluate` tells which is better. training.keep says how many
    checkpoints a run leaves.

    Examples:

        calque average runs/1

        calque average runs/1 --of best -n 3 --output models/mean
    """
    from calque.commands.inputs import choice
    from calque.errors import FolderError
    from calque.experiment import average_run

    chosen = choice(of, ("last", "best"), option="--of")
    if output is not None and output.exists():
        raise FolderError(f"{output}: there is something already; choose another folder for --output")
    folder = output or run / "averaged"
    steps = average_run(run, of=chosen, count=count, output=folder)
    if len(steps) == 1:
        typer.echo(f"there is one checkpoint to take the mean of: it is that of step {steps[0]}", err=True)
    else:
        typer.echo(f"the mean of {len(steps)} checkpoints: steps {', '.join(map(str, steps))}", err=True)
    typer.echo(folder)
