"""`calque data`: check, prepare, phrasebook."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from calque.errors import ConfigError, DataError, FolderError

app = typer.Typer(help="Check corpora, prepare them, or generate one.", no_args_is_help=True)

LANGUAGES = ("zh", "en", "de")


@app.command()
def check(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings, e.g. text.vocabulary_size=4000")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Source sentences, one per line (plain or .gz).")] = None,
    target: Annotated[Path | None, typer.Option(help="Their translations, line by line.")] = None,
    config: Annotated[Path | None, typer.Option(help="A config whose corpora are checked.")] = None,
    test_source: Annotated[Path | None, typer.Option(help="Test sources, to look for in the training data.")] = None,
    test_target: Annotated[Path | None, typer.Option(help="Test targets.")] = None,
) -> None:
    """Report the contents and the problems of corpora before training.

    Counts, lengths, empty lines, unusual length ratios, misaligned lines, duplicates, overlap with the test set, and
    invalid UTF-8 by file, line and byte. Exit code 2 if training would reject the corpora.

    Characters outside the vocabulary that training would build from these corpora are lost, or encoded as bytes if
    the tokenizer has byte pieces.

    Padding is the share of padded positions in a batch. With exact shapes, the default, a batch is as wide as its
    longest pair; static shapes (training.batch.shapes) have a few fixed sizes, for compiled models.

    Examples:

        calque data check --source train.de --target train.en

        calque data check --config my.toml --test-source test.de --test-target test.en
    """
    from calque.commands.progress import preparing
    from calque.config import check as check_config
    from calque.data import check as data_check
    from calque.data.corpora import FilesConfig
    from calque.data.prepare import prepare
    from calque.data.report import report_lines
    from calque.experiment import Experiment, assembly_of, experiment_values

    if (test_source is None) != (test_target is None):
        raise ConfigError("--test-source and --test-target go together: one of them is missing")
    values = experiment_values(
        config=config, system=None, corpora=_corpora(source, target, config), assignments=overrides or []
    )
    experiment = check_config(Experiment, values, origin=str(config or "command line"))
    test = [FilesConfig(source=test_source, target=test_target)] if test_source and test_target else []
    with TemporaryDirectory(prefix="calque-") as folder, preparing() as progress:
        store = experiment.data.store or Path(folder) / "store"
        try:
            prepared = prepare(
                experiment.data, preparation=assembly_of(experiment).preparation, folder=store, progress=progress
            )
        except DataError as error:
            report = data_check.check(experiment.data, test=test)
            typer.echo("\n".join(report_lines(report)))
            _refuse_problems([problem for corpus in report.corpora for problem in (*corpus.problems, *corpus.invalid)])
            raise error
        report = data_check.check(experiment.data, test=test, prepared=prepared, batch=experiment.training.batch)
    typer.echo("\n".join(report_lines(report)))
    _refuse_problems([problem for corpus in report.corpora for problem in corpus.problems])


def _refuse_problems(problems: list[str]) -> None:
    """Raises a DataError with the number of problems, if any; the report lists them."""
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise DataError(f"training would stop at {count}; see the report on standard output")


@app.command()
def prepare(
    out: Annotated[Path, typer.Option(help="The store's folder; configs use it as data.store.")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings.")] = None,
    source: Annotated[Path | None, typer.Option(help="Source sentences, one per line (plain or .gz).")] = None,
    target: Annotated[Path | None, typer.Option(help="Their translations, line by line.")] = None,
    config: Annotated[Path | None, typer.Option(help="A config whose corpora are prepared.")] = None,
) -> None:
    """Prepare a store of ids for several runs: on disk, memory-mapped.

    Example:

        calque data prepare --source train.de --target train.en --out store
    """
    from calque.commands.progress import preparing
    from calque.config import check as check_config
    from calque.data.prepare import prepare as prepare_store
    from calque.experiment import Experiment, assembly_of, experiment_values

    values = experiment_values(
        config=config, system=None, corpora=_corpora(source, target, config), assignments=overrides or []
    )
    experiment = check_config(Experiment, values, origin=str(config or "command line"))
    with preparing() as progress:
        prepared = prepare_store(
            experiment.data, preparation=assembly_of(experiment).preparation, folder=out, progress=progress
        )
    for warning in prepared.warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"{out}: {len(prepared.train):,} pairs to train on, {len(prepared.valid):,} to validate", err=True)


@app.command()
def phrasebook(
    out: Annotated[Path, typer.Option(help="The folder for train, valid and test files.")],
    source: Annotated[str, typer.Option("--from", help="zh, en or de.")] = "zh",
    target: Annotated[str, typer.Option("--to", help="zh, en or de.")] = "en",
    pairs: Annotated[int, typer.Option(min=50, help="Training pairs; valid and test pairs are added.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="Another seed generates another corpus.")] = 0,
    segment: Annotated[bool, typer.Option("--segment", help="Put spaces between the words of Chinese text.")] = False,
    alignments: Annotated[
        bool, typer.Option("--alignments", help="Also write word alignments (Pharaoh): train.align, …")
    ] = False,
) -> None:
    """Write the built-in corpus as text files: train.zh, train.en, valid.…, test.…

    Test sentences have combinations of words and clauses that do not occur in training.

    The grammar that generates the pairs also yields their alignments: one line per pair, such as 0-0 1-2 2-1, the
    source word first, words counted from 0 and separated by white space. With Chinese they need --segment.

    Examples:

        calque data phrasebook --from zh --to en --pairs 20000 --out book

        calque data phrasebook --from zh --to en --segment --alignments --out aligned-book
    """
    from calque.commands.inputs import choice
    from calque_phrasebook import check_options, write_phrasebook
    from calque_phrasebook import phrasebook as generate_phrasebook

    languages = choice(source, LANGUAGES, option="--from"), choice(target, LANGUAGES, option="--to")
    if languages[0] == languages[1]:
        raise ConfigError("--from and --to must be different languages")
    check_options(languages, segment=segment, alignments=alignments)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FolderError(f"{out}: not an empty folder; its files might not line up with the new ones")
    book = generate_phrasebook(source=languages[0], target=languages[1], pairs=pairs, seed=seed)
    write_phrasebook(book, out, languages=languages, segment=segment, alignments=alignments)
    typer.echo(f"{out}: {len(book.train):,} train, {len(book.valid):,} valid, {len(book.test):,} test pairs", err=True)


def _corpora(source: Path | None, target: Path | None, config: Path | None) -> dict[str, Any]:
    if (source is None) != (target is None) or (source is None and config is None):
        raise ConfigError("give --source and --target, or --config")
    return {"train": [{"kind": "files", "source": str(source), "target": str(target)}]} if source else {}
