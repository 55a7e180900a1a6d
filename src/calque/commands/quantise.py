"""The command `calque quantise`, which copies a model with its large weights rounded to 8 bits."""

from pathlib import Path
from typing import Annotated

import typer

from calque.commands.options import model_argument


def quantise(
    model: Annotated[Path, model_argument(help="A run or model folder.")],
    output: Annotated[Path, typer.Argument(metavar="FOLDER", help="The new model folder.")],
) -> None:
    """Write a model with 8-bit weights: a quarter of the size, for fast decoding on a CPU.

    The new model produces exactly the translations that the original produces with --precision int8. Its folder is used
    like any other model folder, also in ensembles. It cannot be trained further, so keep the original.

    Examples:

        calque quantise runs/1 models/small

        calque translate models/small --input test.de --output test.hypothesis

        calque compare runs/1 models/small --source test.de --reference test.en
    """
    from calque.engine.quantisation import quantise_model

    before, after = quantise_model(model, output)
    typer.echo(
        f"weights: {before / 1e6:,.1f} MB before, {after / 1e6:,.1f} MB with 8 bits ({after / before:.0%})", err=True
    )
    typer.echo(output)
