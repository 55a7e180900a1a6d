"""The command `calque average`, which averages the checkpoints of a run."""

from pathlib import Path
from typing import Annotated

import typer

from calque.commands.options import (
    choice_option,
    count_option,
    folder_option,
)

SELECTIONS = ("last", "best")


def average(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder whose training has finished or stopped.")],
    of: Annotated[
        str,
        choice_option(
            choices=SELECTIONS, help="last: the newest checkpoints; best: those with the best validation scores."
        ),
    ] = "last",
    count: Annotated[
        int | None,
        count_option("--count", "-n", help="The number of checkpoints to average; all by default."),
    ] = None,
    output: Annotated[Path | None, folder_option(help="The new model folder; RUN/averaged by default.")] = None,
) -> None:
    """Average the weights of a run's checkpoints into a new model, which is often slightly better than any of them.

    The run's own model is not changed; compare the two with `calque evaluate`. The setting training.keep determines how
    many checkpoints a run keeps.

    Examples:

        calque average runs/1

        calque average runs/1 --of best -n 3 --output models/mean
    """
    from calque.commands.inputs import choice
    from calque.errors import FolderError
    from calque.experiment import average_run

    selection = choice(of, SELECTIONS, option="--of")
    if output is not None and output.exists():
        raise FolderError(f"{output} already exists; choose another folder for --output")
    folder = output or run / "averaged"
    steps = average_run(run, of=selection, count=count, output=folder)
    if len(steps) == 1:
        typer.echo(
            f"only one checkpoint was found, so nothing was averaged; the model is that of step {steps[0]}", err=True
        )
    else:
        typer.echo(f"averaged {len(steps)} checkpoints: steps {', '.join(map(str, steps))}", err=True)
    typer.echo(folder)
