"""The command `calque shortlist`, which adds a lexical shortlist to a translation model, for faster translation."""

from pathlib import Path
from typing import Annotated

import typer

from calque.commands.align import MODELS
from calque.commands.inputs import choice, refuse_unreadable
from calque.commands.options import choice_option, count_option, file_option, model_argument
from calque.errors import ConfigError


def shortlist(
    model: Annotated[Path, model_argument(help="A run or model folder of a translation model.")],
    source: Annotated[
        Path | None, file_option(help="Learn from these source sentences, instead of the run's training data.")
    ] = None,
    target: Annotated[Path | None, file_option(help="The translations of --source, line by line.")] = None,
    frequent: Annotated[
        int, count_option(help="The number of frequent target pieces that every sentence may use.")
    ] = 2000,
    best: Annotated[
        int, count_option(help="The number of most likely translations to keep for each source piece.")
    ] = 20,
    alignment: Annotated[
        str,
        choice_option(
            choices=MODELS,
            help="The kind of alignment model that is trained to find the translations; see calque align.",
        ),
    ] = "ibm1",
) -> None:
    """Add a lexical shortlist to a translation model, with which `calque translate --shortlist` is faster on a CPU.

    With a shortlist, search considers only the frequent target pieces and the likely translations of each source
    piece, which an alignment model learns from the run's training data. Where the shortlist does not suffice, search
    falls back to all words. The shortlist is stored in the model folder and stays valid if training continues.

    Examples:

        calque shortlist runs/1

        calque shortlist models/de-en --source train.de --target train.en

        calque shortlist runs/1 --alignment ibm2

        calque translate runs/1 --shortlist --input test.de
    """
    from calque.commands.progress import preparing
    from calque.experiment.shortlist import Files, add_shortlist
    from calque.statistics.em import Observer
    from calque.statistics.word_alignment import AlignmentSettings

    settings = AlignmentSettings(choice(alignment, MODELS, option="--alignment"))
    if (source is None) != (target is None):
        missing, given = ("--target", "--source") if target is None else ("--source", "--target")
        raise ConfigError(
            f"{given} is given without {missing}; name both files, or neither to use the run's training data"
        )
    refuse_unreadable(source, target)

    class Report(Observer):
        def progress(self, phase: str, done: int, total: int) -> None:
            show(phase, done, total)

    files = Files(source, target) if source is not None and target is not None else None
    with preparing() as show:
        table = add_shortlist(model, files=files, frequent=frequent, best=best, settings=settings, observer=Report())
    entries = len(table.targets) / table.sources
    typer.echo(
        f"shortlist: {len(table.frequent):,} frequent pieces, and on average {entries:.1f} others per source piece",
        err=True,
    )
    typer.echo(model / "model" if (model / "model").is_dir() else model)
